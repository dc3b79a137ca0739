# Checks that files compiled for one instruction set share no function with others.
#
#   cmake -DNM=nm -DARCHIVE=libcoalesce_lanes_v4.a -DISA=v4 -P check_lanes.cmake
#
# If several files define the same inline function, the linker keeps one of them. The kept function
# may have instructions that the processor does not have, and the package would crash. So these files
# may define inline functions only in the namespace of their instruction set.
execute_process(COMMAND ${NM} -C --defined-only ${ARCHIVE} OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]+" shared "${symbols}")
list(FILTER shared EXCLUDE REGEX "coalesce::sim::${ISA}::|DW\\.ref\\.")
if(shared)
  list(JOIN shared "\n  " shared)
  message(FATAL_ERROR "${ARCHIVE} defines inline functions that other files have too:\n  ${shared}\n"
    "Move them to a file that is compiled once, or mark them always_inline.")
endif()
