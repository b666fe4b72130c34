#include "command/cli/own_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "command/cli/progress.h"
#include "command/machine/machine.h"
#include "stretto/base/error.h"
#include "stretto/base/machine/cores.h"
#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/job.h"
#include "stretto/train/job/run.h"
#include "stretto/transport/job_memory.h"

namespace stretto::command {

namespace {

// A rank of a job on several hosts, in a process of one on this host. Rank 0 reports what all ranks have reported.
int run_on_host(const NamespaceHosts& hosts, const RankMain& main, RankContext& process) {
  const int rank = process.rank(), ranks = process.size();
  hosts.enter(hosts.host_of(rank, ranks));
  JoinedRank joined = join_job({.rank = rank,
                                .ranks = ranks,
                                .job = "measurement",
                                .bulletin = std::make_shared<GivenAddress>(rank, ranks, hosts.meeting())})
                          .or_throw();
  const int status = main(joined.context());
  if (status != 0) return status;
  const JobResult result = joined.leave();
  if (!result.ok()) throw Failure({Errc::lost_peer, "a rank has ended without a goodbye"});
  if (rank == 0) process.report(nlohmann::json(result.reports).dump());
  return 0;
}

}  // namespace

Result<std::vector<std::string>> reports_of_ranks(JobOptions options, const RankMain& main,
                                                  const NamespaceHosts* hosts) {
  options.grace_after_loss = std::chrono::seconds(1);
  options.tell = [](const std::string&) {};  // the Error says it
  const RankMain on_host = [&](RankContext& process) { return run_on_host(*hosts, main, process); };
  auto result = run_job(options, hosts != nullptr ? on_host : main);
  if (!result) return result.error();
  if (result->interrupted) throw Interrupted("interrupted");
  if (!result->ok()) {
    const int lost = result->first_lost;
    return Error{lost >= 0 ? Errc::lost_peer : Errc::aborted,
                 result->cause.empty() ? std::string("a rank failed") : result->cause, lost};
  }
  if (hosts != nullptr) return nlohmann::json::parse(result->reports.front()).get<std::vector<std::string>>();
  return std::move(result->reports);
}

Result<std::string> report_of_rank_0(const JobOptions& options, const RankMain& main, const NamespaceHosts* hosts) {
  const auto reports = reports_of_ranks(options, main, hosts);
  if (!reports) return reports.error();
  return reports->front();
}

TimePoint CommonStart::wait(EngineDriver& driver, Duration lead) {
  const SteadyClock clock;
  const std::array<std::int64_t, 1> now = {clock.now().since_start.count()};
  std::array<std::int64_t, 1> last{};
  latest_.run(driver, driver.deadline(kCallTimeout), now, last).or_throw();
  return {Duration(last[0]) + lead};
}

DriverOptions waiting_of(RankContext& context) {
  DriverOptions options;
  if (context.size() > this_machine().cores) options.share_cores();
  return options;
}

Setter seats_into(int& seats) {
  return into(seats, 1, JobMemory::kMaxRanks, "1");
}

void check_seats(int seats, int ranks) {
  if (seats <= ranks) return;
  reject("--seats", std::to_string(seats), fmt::format("expected a number from 1 to {}, the number of ranks", ranks));
}

void stay_on_a_core(int process) {
  const std::vector<int> cores = usable_cores();
  try {
    pin_thread(std::span(cores).subspan(static_cast<std::size_t>(process) % cores.size(), 1));
  } catch (const Failure&) {  // it only takes longer
  }
}

std::vector<nlohmann::json> in_processes(int processes, std::size_t count,
                                         const std::function<nlohmann::json(std::size_t)>& work, const char* what,
                                         const char* units) {
  if (launched_rank()) throw UsageError("simulations run in processes that stretto starts: start it by itself");
  const JobOptions job{.ranks = std::min(processes, static_cast<int>(count))};
  const auto process = [&](RankContext& context) {
    stay_on_a_core(context.rank());
    std::optional<Progress> progress;
    if (context.rank() == 0) progress.emplace(what, units, count);
    nlohmann::json done = nlohmann::json::array();
    const auto next = [&] { return context.counter(0).fetch_add(1); };
    for (std::size_t i = next(); i < count; i = next()) {
      if (progress) progress->update(i);
      try {
        done.push_back({{"number", i}, {"result", work(i)}});
      } catch (const UsageError& error) {
        done.push_back({{"number", i}, {"misuse", error.what()}});
        context.counter(0).fetch_add(count);
      } catch (const Failure& failure) {
        done.push_back({{"number", i}, {"failure", failure.what()}, {"code", failure.error().code}});
        context.counter(0).fetch_add(count);
      } catch (const std::bad_alloc&) {
        done.push_back({{"number", i}, {"too_large", true}});
        context.counter(0).fetch_add(count);
      }
    }
    const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(done);  // keeps each bit of a number, and NaN
    context.report({bytes.begin(), bytes.end()});
    return 0;
  };
  std::vector<nlohmann::json> results(count);
  const std::vector<std::string> reports = reports_of_ranks(job, process).or_throw();
  for (const std::string& report : reports) {
    for (auto& entry : nlohmann::json::from_cbor(report)) {
      if (entry.contains("misuse")) throw UsageError(entry["misuse"].get<std::string>());
      if (entry.contains("failure")) throw Failure({entry["code"].get<Errc>(), entry["failure"].get<std::string>()});
      if (entry.contains("too_large")) throw std::bad_alloc();
      results.at(entry.at("number").get<std::size_t>()) = std::move(entry.at("result"));
    }
  }
  return results;
}

}  // namespace stretto::command
