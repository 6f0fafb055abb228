// Package amdisa executes AMD GPU machine code on the CPU, so that kernels are proven without a GPU.
//
// Load takes a code object (ELF, or the single device entry of a HIP fat binary), reads its metadata and kernel descriptors
// and lets llvm-objdump decode its instructions. Each instruction is compiled once into a closure over whole waves; a Machine
// then launches kernels, workgroups in parallel on all cores, waves of a workgroup interleaved between barriers.
//
// Targets: wave64 on gfx90a, gfx942, gfx950 (as far as the installed llvm-objdump knows it) and wave32 on gfx10, gfx11, gfx12.
//
// Not modelled: time, caches, wait counts, exception flags, rounding modes other than to nearest even, flushing of denormals.
// Transcendental instructions give the correctly rounded result, within 1 ulp of what the hardware gives.
package amdisa
