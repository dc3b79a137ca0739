// Completes the code of modules that the program loads at run time.
//
// METHOD
// Before a program starts, a Python process (its parent) has read all device code in the
// executable. It cannot know code that the program loads later. So the program's process writes
// such code into the folder Settings::code, and starts the Python script coalesce.programs.loaded.
// If ptxas is installed, the script compiles the PTX to machine code. It then writes the file that
// code_file.hpp describes. If Python cannot be started, the kernels are counted on their PTX.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "cudart/abi/abi.hpp"
#include "cudart/binary/fatbin.hpp"

namespace coalesce::cudart {

// An image that cannot be loaded, with the error that the call returns.
struct BadImage : std::runtime_error {
    BadImage(Error number, const std::string& text) : std::runtime_error(text), error(number) {}
    Error error;
};

// Adds the machine code to `code`, and writes the file that code_file.hpp describes. `log` gets the
// messages of ptxas. Throws BadImage if ptxas refuses the PTX.
void complete(Code& code, const std::vector<std::string>& options, std::string& log);

}  // namespace coalesce::cudart
