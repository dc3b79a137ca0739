# Checks that the compiler has vectorized loops over the active lanes of a warp.
#
#   cmake -DOBJDUMP=objdump -DOBJECT=move.cpp.o -DREGISTERS=zmm -P check_vectors.cmake
#
# Without this check, nobody notices that a compiler stops to vectorize such a loop, as GCC 12 does if
# has_lane() returns bool. Kernels whose lanes diverge are then half as fast. The functions below have
# no other loops.
execute_process(COMMAND ${OBJDUMP} -d -C --no-show-raw-insn ${OBJECT} OUTPUT_VARIABLE code
  COMMAND_ERROR_IS_FATAL ANY)
foreach(function "store_active<unsigned int>" "add_constant<unsigned long>" "read_special<unsigned int>")
  string(FIND "${code}" "::${function}(coalesce" start)
  if(start LESS 0)
    string(FIND "${code}" "::${function}(unsigned" start)
  endif()
  if(start LESS 0)
    message(FATAL_ERROR "${OBJECT} has no function ${function}; change check_vectors.cmake")
  endif()
  string(SUBSTRING "${code}" ${start} -1 text)
  string(FIND "${text}" "\n\n" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  string(REGEX MATCHALL "%${REGISTERS}" used "${text}")
  list(LENGTH used count)
  if(count LESS 4)
    message(FATAL_ERROR "${function} in ${OBJECT} uses no ${REGISTERS} registers: its loop over the lanes "
      "of a warp is not vectorized.")
  endif()
endforeach()
