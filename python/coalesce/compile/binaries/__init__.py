"""What the compiler wrote: cubins, executables, their disassembly and debug information."""
