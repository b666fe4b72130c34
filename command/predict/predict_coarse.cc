#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command/cli/command_line.h"
#include "command/cli/commands.h"
#include "command/cli/exit_code.h"
#include "command/cli/output.h"
#include "command/cli/table.h"
#include "command/predict/described_job.h"
#include "stretto/predict/coarse/coarse_prediction.h"

namespace stretto::command {

namespace {

struct CoarseCommand {
  JobArgument job;
  Output output;
};

void describe_options(CommandLine& line, CoarseCommand& command) {
  command.job.add_options(line);
  line.heading("Output");
  command.output.add_option(line);
  line.example("stretto predict coarse job.json", "Rates with servers and in a ring, in a table.");
  line.example("stretto predict coarse profile.json --workers 16", "Sixteen of the worker that was profiled.");
  line.example("stretto predict coarse --json - < job.json", "The same as a JSON object.");
  describe_job_file(line);
  line.note(
      "By the formulas of Li et al., \"Predicting Throughput of Distributed Stochastic Gradient Descent\" (IEEE TPDS "
      "2022): a step is four phases, download, computation, upload and update. Asynchronous rates come of mean value "
      "analysis, once with links that serve one transfer after the other and once with links that all share. The first "
      "is taken where no link is utilized more than rho_threshold, else the second; both are printed. With overlap "
      "means that transfers go on while layers are computed. On the clusters of that paper mean errors are up to "
      "5 %, the largest one is 16 %.");
}

std::string digits(double value) {
  return significant(value, 4);
}

std::string in_words(LinkSharing sharing) {
  return sharing == LinkSharing::in_order ? "in order" : "shared";
}

std::string asynchronous_table(const CoarsePrediction& prediction) {
  Table table({"asynchronous, steps/s", "links in order", "used", "links shared", "taken", "steps/s", "examples/s"});
  const auto row = [&](const char* name, const AsynchronousRate& rate) {
    table.add({name, digits(rate.in_order), percent(rate.utilization), digits(rate.equal_shares), in_words(rate.chosen),
               digits(rate.steps_per_second), digits(rate.examples_per_second)});
  };
  row("one phase after the other", prediction.basic);
  row("with overlap", prediction.overlap);
  const std::string none = "–";
  table.add({"Cynthia", none, none, none, none, digits(prediction.cynthia.asynchronous), none});
  return table.to_text();
}

std::string synchronous_table(const CoarsePrediction& prediction) {
  const SynchronousStep& step = prediction.synchronous;
  Table table({"synchronous", "s/step", "examples/s"});
  const auto row = [&](const char* name, double seconds) {
    table.add({name, digits(seconds), digits(prediction.examples_in_step / seconds)});
  };
  row("server, links shared", step.equal_shares);
  row("server, links in order", step.in_order);
  row("server, mean of both", step.mean);
  row("server, mean, with overlap", step.overlap);
  row("allreduce in a ring", step.ring);
  row("Cynthia", prediction.cynthia.synchronous);
  return table.to_text();
}

nlohmann::ordered_json to_json(const AsynchronousRate& rate) {
  return {{"fcfs", rate.in_order},
          {"rho", rate.utilization},
          {"ps", rate.equal_shares},
          {"chosen", name_of(rate.chosen)},
          {"steps_per_s", rate.steps_per_second},
          {"examples_per_s", rate.examples_per_second}};
}

nlohmann::ordered_json to_json(const CoarsePrediction& prediction) {
  const SynchronousStep& step = prediction.synchronous;
  nlohmann::ordered_json asynchronous = to_json(prediction.basic);
  asynchronous["overlap"] = to_json(prediction.overlap);
  asynchronous["solver"] = prediction.exact ? "exact" : "bard-schweitzer";
  return {
      {"workers", prediction.workers},
      {"async", asynchronous},
      {"sync",
       {{"ps", step.equal_shares},
        {"fcfs", step.in_order},
        {"mean", step.mean},
        {"overlap", step.overlap},
        {"ring", step.ring},
        {"examples_per_s", prediction.examples_in_step / step.mean}}},
      {"cynthia", {{"async_steps_per_s", prediction.cynthia.asynchronous}, {"sync", prediction.cynthia.synchronous}}},
      {"notes", prediction.notes}};
}

int run(const CoarseCommand& command) {
  const CoarsePrediction prediction = predict_coarse(command.job.read());
  command.output.say(fmt::format("{} workers\n\n{}\n{}", prediction.workers, asynchronous_table(prediction),
                                 synchronous_table(prediction)));
  for (const std::string& note : prediction.notes) command.output.say(note);
  command.output.emit(to_json(prediction));
  return kSuccess;
}

}  // namespace

Subcommand predict_coarse_command() {
  return make_command(
      {.name = "coarse",
       .summary = "By formulas, from a few totals of one worker.",
       .introduction = "Predicts by formulas how many steps a job makes in a second, with servers and in a "
                       "ring, from a few totals of one worker."},
      CoarseCommand(), describe_options, run);
}

}  // namespace stretto::command
