#include "command/run/job_options.h"

#include "stretto/transport/job_memory.h"

namespace stretto::command {

Setter into_address(std::optional<JobAddress>& target) {
  return Setter([&target](std::string_view option, const std::string& text) {
    const auto address = JobAddress::parse(text);
    if (!address) reject(option, text, address.error().message);
    target = *address;
  });
}

void describe_secret(CommandLine& line, std::string& file) {
  line.option("--token-file", "FILE",
              "Where the job's secret is, a file that only its user can read. Default: what STRETTO_TOKEN says, or the "
              "file that stretto run --listen has named.",
              into(file));
}

void describe_restarts(CommandLine& line, ProgramRanks& job) {
  line.option("--restarts", "N",
              "Where members change: so many processes take the places of lost ones that were started here, all "
              "together; each takes the model over from the others. Default 0.",
              into(job.restarts, 0, JobMemory::kMaxRanks, "3"));
}

void describe_grace(CommandLine& line, ProgramRanks& job) {
  line.option("--grace", "TIME",
              "So long ranks have to end by themselves, once one has failed or a signal has come, before they are "
              "killed. Less loses what they still write. Default 30s.",
              into(job.grace, "5s"));
}

void describe_tag(CommandLine& line, ProgramRanks& job) {
  line.heading("What ranks write");
  line.flag("--tag", "",
            "Each line begins with the rank that has written it, \"[rank 2] \", and comes out whole. Without it output "
            "is the terminal's, file's or pipe's own, as it is written.",
            [&job](std::string_view, const std::string&) { job.tag = true; });
}

}  // namespace stretto::command
