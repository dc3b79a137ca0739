# The host instruction sets for which the simulator is compiled, and the flags for each.
#
#   COALESCE_ISAS=host     the best one of this machine, for all files; builds fastest
#   COALESCE_ISAS=all      the baseline, AVX2 (v3) and AVX-512 (v4), chosen when the program starts:
#                          for wheels, which must run on any x86-64
#   COALESCE_ISAS=generic  only the baseline
set(COALESCE_ISAS host CACHE STRING "Instruction sets to build the simulator for: host, all or generic")
set_property(CACHE COALESCE_ISAS PROPERTY STRINGS host all generic)

set(COALESCE_ISA_FLAGS_generic "" CACHE INTERNAL "")
set(COALESCE_ISA_FLAGS_v3 -march=x86-64-v3 CACHE INTERNAL "")
set(COALESCE_ISA_FLAGS_v4 -march=x86-64-v4 -mprefer-vector-width=512 CACHE INTERNAL "")

set(isas generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  if(COALESCE_ISAS STREQUAL "all")
    list(APPEND isas v3 v4)
  elseif(COALESCE_ISAS STREQUAL "host" AND NOT CMAKE_CROSSCOMPILING)
    if(NOT DEFINED COALESCE_HOST_LEVEL)
      file(WRITE ${CMAKE_BINARY_DIR}/host_level.cpp
        "#include \"${CMAKE_CURRENT_LIST_DIR}/warp/host_isa.hpp\"\nint main() { return coalesce::sim::host_level(); }\n")
      try_run(COALESCE_HOST_LEVEL host_level_compiled ${CMAKE_BINARY_DIR}/host_level
        ${CMAKE_BINARY_DIR}/host_level.cpp)
    endif()
    if(COALESCE_HOST_LEVEL MATCHES "^[34]$")
      set(isas v${COALESCE_HOST_LEVEL})
      # There is only one instruction set, so all files may use it.
      target_compile_options(coalesce_options INTERFACE ${COALESCE_ISA_FLAGS_${isas}})
    endif()
  endif()
endif()
set(COALESCE_ISA_TABLES ${isas} CACHE INTERNAL "Instruction sets that get a table of operations")
list(GET isas 0 lowest)
set(COALESCE_LOWEST_ISA ${lowest} CACHE INTERNAL "The instruction set whose files come first on the link line")
message(STATUS "coalesce: simulator for ${COALESCE_ISA_TABLES}")

list(TRANSFORM isas REPLACE "(.+)" "M(\\1)" OUTPUT_VARIABLE COALESCE_ISA_LIST)
list(JOIN COALESCE_ISA_LIST " " COALESCE_ISA_LIST)
configure_file(${CMAKE_CURRENT_LIST_DIR}/warp/instruction_sets.hpp.in
  ${PROJECT_BINARY_DIR}/generated/sim/warp/instruction_sets.hpp)
target_include_directories(coalesce_options INTERFACE ${PROJECT_BINARY_DIR}/generated)
