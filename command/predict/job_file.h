#pragma once

#include <string>

#include "command/cli/command_line.h"
#include "stretto/predict/model/training_job.h"

namespace stretto::command {

/// The job in a JSON file, or on standard input where `file` is "-". Throws Failure, Errc::bad_input for a file that is
/// not there and for a value that does not fit.
TrainingJob read_job_file(const std::string& file);

/// What --help says about such files: a paragraph.
void describe_job_file(CommandLine& line);

}  // namespace stretto::command
