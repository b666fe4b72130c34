#pragma once

#include <string>

#include "command/cli/command_line.h"
#include "stretto/predict/model/training_job.h"

namespace stretto::command {

/// The job in a JSON file, or on standard input where `file` is "-". Throws Failure, Errc::bad_input for a file that is
/// not there and for a value that does not fit.
TrainingJob read_job_file(const std::string& file);

/// Describes such files in --help, in a paragraph.
void describe_job_file(CommandLine& line);

/// The one job that a command is about: FILE, and --workers, which asks of one worker's profile how many of them would
/// do.
struct JobArgument {
  std::string file;
  int workers = 0;  // 0: as many as the file says

  /// Adds both to `line`; this object must outlive the parsing.
  void add_options(CommandLine& line);
  /// Throws what read_job_file() throws, and UsageError for --workers where there are several classes.
  TrainingJob read() const;
};

}  // namespace stretto::command
