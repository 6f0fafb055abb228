#!/usr/bin/env bash
# sysroot.sh VERSION DIR unpacks AMD's HIP run time, its run-time compiler and its headers from Debian into DIR, together
# with everything they load, their C library included. The host's packages stay as they are, and no GPU is needed.
#
#   VERSION  5.7 | 6.4 | 7.2: the suite that holds it today; an older or newer patch level is taken as it comes
#
# DIR ends in VERSION, by which the tests know what it holds. It is complete when DIR/.complete exists; then a second call
# does nothing. A program of the host runs against it with
#   DIR/usr/lib64/ld-linux-x86-64.so.2 --library-path DIR/usr/lib/x86_64-linux-gnu PROGRAM
# The binding and compiler tests of package hip take such directories from VOXTRAL_ROCM_SYSROOTS, separated by colons.
set -euo pipefail

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

(($# == 2)) || usage
case $1 in
  5.7) suites=(trixie) ;;
  6.4) suites=(forky) ;;
  7.2) suites=(sid experimental) ;;
  *) usage ;;
esac
version=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
[[ -e $dir/.complete ]] && exit 0

# Packages come from wherever this machine gets its own.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
  awk '$3 == "main" && $2 !~ /-(security|updates)$/ { print $1; exit }')
if [[ -z $mirror ]]; then
  echo "sysroot.sh: apt knows no Debian mirror with component main" >&2
  exit 1
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# An apt of its own: nothing installed, so the whole closure is fetched; its lock lies in DIR, so several may run at once.
apt=$dir/.apt
mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,parts}
: >"$apt/state/status"
for suite in "${suites[@]}"; do
  echo "deb [signed-by=$keyring] $mirror $suite main"
done >"$apt/sources.list"
cat >"$apt/apt.conf" <<EOF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferences "$apt/none";
Dir::Etc::preferencesparts "$apt/parts";
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
EOF
export APT_CONFIG=$apt/apt.conf
apt-get -qq update
wanted=(-t "${suites[-1]}" libamdhip64-dev)
apt-get -qq -y --download-only install "${wanted[@]}" >/dev/null

# Merged /usr before anything is unpacked, so that no package makes /lib a folder.
mkdir -p "$dir"/usr/{bin,sbin,lib,lib64}
for folder in bin sbin lib lib64; do
  [[ -e $dir/$folder ]] || ln -s "usr/$folder" "$dir/$folder"
done
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$dir"
done
rm -rf "$apt"

header=$dir/usr/include/hip/hip_version.h
found=$(awk '$2 == "HIP_VERSION_MAJOR" { major = $3 } $2 == "HIP_VERSION_MINOR" { minor = $3 } END { print major "." minor }' "$header")
if [[ $found != "$version" ]]; then
  echo "sysroot.sh: asked for HIP $version, Debian ${suites[*]} holds $found now: update the table in this script" >&2
  exit 1
fi
touch "$dir/.complete"
