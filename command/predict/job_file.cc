#include "command/predict/job_file.h"

#include <fmt/format.h>

#include "stretto/base/files/input_file.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/model/read_job.h"

namespace stretto::command {

TrainingJob read_job_file(const std::string& file) {
  if (file != "-") return read_job(read_whole_file(file).or_throw(), file).or_throw();
  return read_job(read_all(open_standard_input()).or_throw(), "standard input").or_throw();
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

void JobArgument::add_options(CommandLine& line) {
  line.positional("FILE", CommandLine::Presence::required, "The job, as JSON; - is standard input.", into(file));
  line.heading("The job");
  line.option("--workers", "N", "How many workers there are, of a job with one class. Default: what the file says.",
              into(workers, 1, 10'000'000, "16"));
}

TrainingJob JobArgument::read() const {
  TrainingJob job = read_job_file(file);
  if (workers == 0) return job;
  if (job.classes.size() > 1) {
    throw UsageError(fmt::format("--workers {}: the job has {} classes of workers; say count in each of them, in {}",
                                 workers, job.classes.size(), file));
  }
  job.classes.front().count = workers;
  return job;
}

}  // namespace stretto::command
