// Completes the code of modules that the program loads at run time.
//
// METHOD
// The parent process has read the code in the executable. Code that is loaded later is unknown to
// it. So this process writes the code into the folder of Settings::code and starts the script of
// the parent process there, coalesce.programs.loaded. The script compiles PTX to machine code if
// ptxas is there, and writes the file of code_file.hpp. Without Python, the kernels are counted on
// their PTX.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "cudart/abi.hpp"
#include "cudart/fatbin.hpp"

namespace coalesce::cudart {

// An image that cannot be loaded, with the error that the call returns.
struct BadImage : std::runtime_error {
    BadImage(Error number, const std::string& text) : std::runtime_error(text), error(number) {}
    Error error;
};

// Adds the machine code, and writes the file of code_file.hpp. `log` gets the messages of ptxas.
// Throws BadImage if ptxas refuses the PTX.
void complete(Code& code, const std::vector<std::string>& options, std::string& log);

}  // namespace coalesce::cudart
