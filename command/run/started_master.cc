#include "command/run/started_master.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "command/cli/output.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

using namespace std::chrono_literals;

constexpr Duration kForAnother = 5min;    // process to come in the place of a lost one
constexpr Duration kForOneInPlace = 10s;  // of one that leaves: it may have little time

/// With a register in etcd any of the job's launchers has the master.
bool is_shared(const ProgramRanks& job) {
  return EtcdAddress::is_meant_by(job.log);
}

/// By which others come to the job, whose master listens there.
JobAddress address_of(const ProgramRanks& job, const JobAddress& listens) {
  return is_shared(job) ? JobAddress::parse(job.log).or_throw() : listens;
}

std::string secret_file_of(const ProgramRanks& job, const JobAddress& listens) {
  return job.secret_file.empty() ? JobSecret::usual_file(address_of(job, listens)) : job.secret_file;
}

/// That of the master before this one, where the job goes on from a register; else a new one.
Token token_of(const ProgramRanks& job) {
  if (!job.log.empty()) {
    const auto before = JobSecret::find(secret_file_of(job, *job.listen), address_of(job, *job.listen));
    if (before) return *before;
  }
  return new_token();
}

std::string name_of(const ProgramRanks& job) {
  return one_line(fmt::format("{}", fmt::join(job.program, " ")));
}

}  // namespace

bool StartedMaster::has_begun(const ProgramRanks& job) {
  const auto tell = [](const std::string& damage) { print_to(stderr, fmt::format("stretto: {}\n", damage)); };
  return !job.log.empty() && JobMaster::left_in(job.log, name_of(job), tell).view.epoch > 0;
}

StartedMaster::StartedMaster(const ProgramRanks& job, int here) : has_log_(!job.log.empty()) {
  const bool others_come = job.restarts > 0 || job.listen;  // then too few are waited for
  const Duration wait = job.patience.value_or(others_come ? kForAnother : Duration(0));
  // Where others come from elsewhere one that leaves is held as long as a lost one is waited for: it goes on computing.
  const Duration for_one_in_place = std::max(kForOneInPlace, job.listen ? wait : job.patience.value_or(Duration(0)));
  const std::optional<Token> made_up = job.listen ? JobSecret::by_environment() : std::nullopt;
  token_ = made_up ? *made_up : token_of(job);
  const JobMaster::Options options{
      .token = token_,
      .listen = job.listen ? job.listen->host : "127.0.0.1",
      .port = job.listen ? job.listen->port : std::uint16_t{0},
      .least = job.least,
      .most = job.ranks,
      .first = std::min(job.ranks, here > 0 ? here : job.least),
      .places = std::min(JobMemory::kMaxRanks, std::max(job.ranks, here) + (job.listen ? job.ranks : 0)),
      .wait = wait,
      .wait_to_leave = others_come ? for_one_in_place : Duration(0),
      .evict = job.evict,
      .program = job.program,
      .liveness = job.listen ? job.liveness : Duration(0),
      .reads_reports = job.reads_reports,
      .log = job.log,
      .job = name_of(job)};
  if (is_shared(job)) {
    shared_ = std::make_unique<SharedMaster>(options);
  } else {
    master_ = std::make_unique<JobMaster>(options);
  }
  if (!job.listen) return;
  const JobAddress listens = master_ ? master_->address() : JobAddress{};
  std::string where;
  if (!made_up) {
    secret_.emplace(secret_file_of(job, listens), token_);
    where = fmt::format(", with the secret in {}", secret_->path());
  }
  how_to_come_ = fmt::format("others come by: stretto join {}{}", address_of(job, listens).to_string(), where);
}

StartedMaster::~StartedMaster() {
  if (has_log_ && secret_ && end_of_job() == JobEnd::none) secret_->keep();
}

}  // namespace stretto::command
