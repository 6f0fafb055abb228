#!/usr/bin/env bash
# check.sh vets and builds voxtral for arm64, then runs package cpu's tests and the README's first command on QEMU with every
# instruction set. The text must be the one that this machine's own build prints.
#
# Needs Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static. What QEMU takes says nothing about speed.
set -euo pipefail
cd "$(dirname "$0")/../.."
sets=(generic neon-dotprod neon-i8mm)
unset VOXTRAL_MODEL VOXTRAL_CPU_ISA

work=$(mktemp -d)
texts=() # processes that write the text of each set
trap 'kill "${texts[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
cross() { GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc go "$@"; }
# emulate takes the place of the subshell that it runs in.
emulate() { exec qemu-aarch64-static -cpu max -L /usr/aarch64-linux-gnu "$@"; }
fail() { echo "check.sh: $*" >&2; exit 1; }

cross vet ./...
cross build -o "$work/voxtral" ./cmd/voxtral
cross test -c -o "$work/cpu.test" ./cpu

# The README's first command, while the tests run.
read -ra command < <(sed -n 's|^    go run ./cmd/voxtral ||p' README.md)
for set in "${sets[@]}"; do
  VOXTRAL_CPU_ISA=$set emulate "$work/voxtral" "${command[@]}" --device cpu >"$work/$set.text" &
  texts+=($!)
done

log=$work/tests.txt
(cd cpu && emulate "$work/cpu.test" -test.v) >"$log" || { grep -v -e '^=== ' -e '--- PASS' "$log" >&2; fail "tests of package cpu fail"; }
if grep -e '--- SKIP' "$log" >&2; then fail "a test was skipped"; fi
# What ran with one instruction set ran with all.
ran() { sed -n "s|^ *--- PASS: \(Test[^/]*\)/$1 .*|\1|p" "$log"; }
for set in "${sets[@]}"; do
  ran "$set" >"$work/$set.txt"
  [[ -s $work/$set.txt ]] || fail "no test ran with $set"
  diff "$work/${sets[0]}.txt" "$work/$set.txt" || fail "tests that ran with ${sets[0]} and with $set differ"
  echo "$set: $(wc -l <"$work/$set.txt") tests"
done
for loop in "int8 NEON dotprod" "int8 NEON i8mm"; do
  grep -q "$loop: " "$log" || fail "the probe did not run $loop"
done

go run ./cmd/voxtral "${command[@]}" --device cpu | tee "$work/host.text"
[[ -s $work/host.text ]] || fail "no text on this machine"
for i in "${!sets[@]}"; do
  wait "${texts[i]}" || fail "${sets[i]} gives no text"
  diff "$work/host.text" "$work/${sets[i]}.text" || fail "the text of ${sets[i]} differs"
  echo "${sets[i]}: the same text"
done
texts=()
