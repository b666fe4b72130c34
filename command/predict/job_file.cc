#include "command/predict/job_file.h"

#include <iostream>
#include <iterator>

#include "stretto/observe/whole_file.h"
#include "stretto/predict/model/read_job.h"

namespace stretto::command {

TrainingJob read_job_file(const std::string& file) {
  if (file != "-") return read_job(read_whole_file(file).or_throw(), file).or_throw();
  const std::string content{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  return read_job(content, "standard input").or_throw();
}

void describe_job_file(CommandLine& line) {
  line.note(
      "A job is a JSON object: {\"model_bytes\": 1e8, \"bandwidth\": 1.25e9, \"update\": 0.002, \"rho_threshold\": "
      "0.5, "
      "\"servers\": 1, \"workers\": [{\"count\": 8, \"forward\": 0.03, \"backward\": 0.06, \"batch\": 32}]}, in bytes, "
      "bytes per second and seconds. workers are classes of equal ones. docs/prediction.md says what else there may "
      "be, "
      "and the formulas.");
}

}  // namespace stretto::command
