#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "command/cli/commands.h"
#include "command/cli/output.h"
#include "command/cli/values.h"
#include "command/run/job_options.h"
#include "command/run/program_ranks.h"
#include "stretto/base/error.h"
#include "stretto/membership/masters/remote_job.h"
#include "stretto/transport/job_memory.h"

// The commands that speak to a job which another one has started: join, members, leave.

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kAskEvery = 20ms;

// ---- stretto join ----

void describe_join(CommandLine& line, ProgramRanks& job) {
  line.positional("ADDRESS", CommandLine::Presence::required, std::string(kAddressHelp), into_address(job.job));
  line.heading("The processes");
  line.option("--here", "N", "How many come from here. Default 1.",
              [&job](std::string_view option, const std::string& text) {
                job.here = static_cast<int>(parse_integer(option, text, 1, JobMemory::kMaxRanks, "2"));
              });
  describe_restarts(line, job);
  line.flag(
      "--no-return", "",
      "None takes the place of one that the others have gone on without, since it stood still or nothing came from "
      "this host. Default: one does, where the host is back, or by --restarts.",
      [&job](std::string_view, const std::string&) { job.no_return = true; });
  describe_grace(line, job);
  describe_secret(line, job.secret_file);
  describe_tag(line, job);
  line.rest("PROGRAM", job.program);
  line.example("stretto join 10.0.0.1:29400 --here 2", "Two more processes of the program that the job runs.");
  line.example("stretto join 29400 --restarts 3 -- python train.py",
               "One, and others in its place where it is lost; by the port, since the master is on this host.");
  line.example("stretto join etcd://10.0.0.9:2379/train", "One, of a job whose register is in etcd.");
  line.note(
      "With etcd://… this launcher may have the job's master, where another one is lost. "
      "The program is started in the present folder. Where the job has as many members as it may have, a process waits "
      "as a spare, and comes in when one is lost or has left. SIGINT, SIGTERM, SIGHUP and SIGQUIT have those that were "
      "started here leave with nothing lost; at the second one they are killed. The exit status is 0 where the job has "
      "come to its end or all of these have left, else that of the first that was lost.");
}

int join_job_elsewhere(const ProgramRanks& given) {
  ProgramRanks job = given;
  job.here = given.here.value_or(1);
  return run_program_ranks(job, "stretto join").status;
}

// ---- stretto members ----

struct LookedAtJob {
  std::optional<JobAddress> job;
  std::string secret_file;
  Output output;
  std::string member;  // of leave: a number, or a host
};

RemoteJob reach(const LookedAtJob& options) {
  return RemoteJob(
      RemoteJob::Options{.at = *options.job, .token = JobSecret::find(options.secret_file, *options.job).or_throw()});
}

void describe_members(CommandLine& line, LookedAtJob& options) {
  line.positional("ADDRESS", CommandLine::Presence::required, std::string(kAddressHelp), into_address(options.job));
  options.output.add_option(line);
  describe_secret(line, options.secret_file);
  line.example("stretto members 29400", "Who is in the job?");
}

const char* word_of(JobEnd end) {
  switch (end) {
    case JobEnd::none: return "running";
    case JobEnd::done: return "done";
    case JobEnd::given_up: return "given up";
  }
  return "";
}

nlohmann::ordered_json members_as_json(const Registered& job, const JobBeside& beside) {
  auto members = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < job.view.members.size(); ++rank) {
    const PlacedMember& member = job.view.members[rank];
    members.push_back(nlohmann::ordered_json{{"rank", rank}, {"member", member.number}, {"host", member.host}});
  }
  return {{"state", word_of(job.end)}, {"epoch", job.view.epoch},   {"rounds", job.view.complete}, {"members", members},
          {"spares", beside.spares},   {"left", job.view.departed}, {"waits", beside.waits}};
}

std::string list_of(const std::vector<MemberNumber>& numbers) {
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "));
}

std::string members_as_text(const Registered& job, const JobBeside& beside) {
  std::string out = fmt::format("the job is {}: epoch {}, which began after {} rounds\n", word_of(job.end),
                                job.view.epoch, job.view.complete);
  if (!job.view.members.empty()) out += "rank  member  host\n";
  for (std::size_t rank = 0; rank < job.view.members.size(); ++rank) {
    const PlacedMember& member = job.view.members[rank];
    out += fmt::format("{:4}  {:6}  {}\n", rank, member.number, member.host);
  }
  out += fmt::format("spares: {}\nhave left: {}", list_of(beside.spares), list_of(job.view.departed));
  if (!beside.waits.empty()) out += fmt::format("\nit waits: {}", beside.waits);
  return out;
}

int show_members(const LookedAtJob& options) {
  RemoteJob job = reach(options);
  const Registered known = job.known();
  const JobBeside beside = job.beside();
  options.output.say(members_as_text(known, beside));
  options.output.emit(members_as_json(known, beside));
  return 0;
}

// ---- stretto leave ----

void describe_leave(CommandLine& line, LookedAtJob& options) {
  line.positional("ADDRESS", CommandLine::Presence::required, std::string(kAddressHelp), into_address(options.job));
  line.positional("MEMBER", CommandLine::Presence::required,
                  "The number of a member, as the command's lines and stretto members say it, or a host: all of its "
                  "members.",
                  into(options.member));
  describe_secret(line, options.secret_file);
  line.example("stretto leave 29400 3", "Member 3 ends its step, hands it over, and goes.");
  line.note(
      "Returns when they have left: no batch is computed twice, and the others do not wait. The last members of a job "
      "cannot leave this way: end the job where it was started.");
}

/// The members that are meant, all of them in the job.
std::vector<MemberNumber> members_meant(const std::string& words, const View& view) {
  std::vector<MemberNumber> meant;
  const bool is_number = words.find_first_not_of("0123456789") == std::string::npos && words.size() < 19;
  for (const PlacedMember& member : view.members) {
    if (is_number ? member.number == std::stoull(words) : member.host == words) meant.push_back(member.number);
  }
  if (!meant.empty()) return meant;
  std::vector<std::string> there;
  for (const PlacedMember& member : view.members) there.push_back(fmt::format("{} on {}", member.number, member.host));
  throw UsageError(fmt::format("{} '{}' is not in the job: expected one of its members, which are {}",
                               is_number ? "member" : "host", words,
                               there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", "))));
}

int send_members_away(const LookedAtJob& options) {
  RemoteJob job = reach(options);
  Registered known = job.known();
  if (known.end != JobEnd::none) throw Failure({Errc::unavailable, "the job has ended"});
  const std::vector<MemberNumber> meant = members_meant(options.member, known.view);
  if (meant.size() == known.view.members.size()) {
    throw UsageError(fmt::format("'{}' means all members of the job: end it where it was started", options.member));
  }
  for (const MemberNumber number : meant) job.send_away(number);
  std::vector<MemberNumber> waited = meant;
  while (!waited.empty()) {
    std::this_thread::sleep_for(kAskEvery);
    known = job.known();
    if (job.is_gone()) throw Failure({Errc::lost_peer, "the master of the job is gone"});
    std::erase_if(waited, [&](MemberNumber number) {
      if (known.view.has(number) && known.end == JobEnd::none) return false;
      const bool left = known.view.has_departed(number);
      print_to(stdout, fmt::format("member {} {}\n", number,
                                   left                        ? "has left"
                                   : known.end != JobEnd::none ? "was there until the job's end"
                                                               : "was lost before it could leave"));
      return true;
    });
  }
  return 0;
}

}  // namespace

Subcommand join_command() {
  return make_command({.name = "join",
                       .summary = "Starts more processes for a job that runs, where members may come.",
                       .introduction = "Starts processes that come to a running job of stretto run --ranks MIN:MAX "
                                       "--listen, on any host: each takes the model over from the others."},
                      ProgramRanks{.ranks = 0}, describe_join, join_job_elsewhere);
}

Subcommand members_command() {
  return make_command({.name = "members",
                       .summary = "Shows who is in a job whose members change.",
                       .introduction = "Shows the members of a running job of stretto run --ranks MIN:MAX --listen."},
                      LookedAtJob(), describe_members, show_members);
}

Subcommand leave_command() {
  return make_command({.name = "leave",
                       .summary = "Has members of a running job leave it, with nothing lost.",
                       .introduction = "Has members leave a running job of stretto run --ranks MIN:MAX --listen, as "
                                       "SIGTERM to their processes does."},
                      LookedAtJob(), describe_leave, send_members_away);
}

}  // namespace stretto::command
