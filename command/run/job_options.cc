#include "command/run/job_options.h"

#include <fmt/format.h>

#include <chrono>

#include "command/run/places/host_list.h"
#include "stretto/base/error.h"
#include "stretto/membership/etcd/etcd.h"
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

void describe_members(CommandLine& line, ProgramRanks& job) {
  line.option(
      "--here", "N",
      "With MIN:MAX: so many processes are started. Those above MAX wait as spares for the place of one that is "
      "lost or has left; 0: others come by stretto join. Default MAX.",
      [&job](std::string_view option, const std::string& text) {
        job.here = static_cast<int>(parse_integer(option, text, 0, JobMemory::kMaxRanks, "4"));
      });
  line.option(
      "--listen", "[ADDRESS:]PORT",
      "With MIN:MAX: at this port more processes come by stretto join, and stretto members and leave work; 0: "
      "any that is free. ADDRESS: one of this host's; 127.0.0.1: they come from this host alone; none: "
      "that of the first interface that STRETTO_INTERFACE allows (docs/clusters.md). A line says where, and where "
      "the job's secret lies. Default: they come from here alone.",
      into_address(job.listen));
  line.option(
      "--token-file", "FILE",
      "With --listen: the job's secret is written there, for this user alone, as long as the job lasts. Default: "
      "a file that the line names; none where STRETTO_TOKEN says the secret.",
      into(job.secret_file));
  line.option(
      "--register", "FILE",
      "With --listen: who is in the job is kept in FILE, or in etcd where that is etcd://HOST:PORT[,HOST:PORT…]/NAME. "
      "Where this command is killed, and started again in the same way, the job goes on, with the members that were "
      "started elsewhere; these wait for it as long as --patience says. With etcd another launcher of the job has "
      "the master meanwhile, and others come by stretto join etcd://…. "
      "Default: they end with this command.",
      into(job.log));
  line.option(
      "--patience", "TIME",
      "With MIN:MAX: so long fewer than MIN wait for others, before the job is given up. Default 0s; 5m where "
      "others may come by --restarts or --listen.",
      [&job](std::string_view option, const std::string& text) { job.patience = parse_duration(option, text, "30s"); });
  line.option(
      "--evict", "TIME",
      "With MIN:MAX: a member for which others have waited in a call for so long is excluded: the others go on, "
      "and its process is ended, which counts as a loss. A step that takes longer is one, too; from 2s. Default: "
      "it is waited for, and named after ten seconds.",
      [&job](std::string_view option, const std::string& text) {
        job.evict = parse_duration(option, text, "5s");
        if (job.evict < std::chrono::seconds(2)) reject(option, text, "expected a time from 2s", "5s");
      });
  line.flag("--no-return", "",
            "With MIN:MAX: no process takes the place of a member that is excluded by --evict, or was lost with its "
            "host. Default: one does, by --restarts, or where the host is back.",
            [&job](std::string_view, const std::string&) { job.no_return = true; });
}

bool has_member_options(const ProgramRanks& job) {
  return job.restarts > 0 || job.here || job.listen || job.patience || job.evict > Duration::zero() || job.no_return ||
         !job.secret_file.empty() || !job.log.empty();
}

void check_member_options(const ProgramRanks& job) {
  const auto require_range = [&job](bool given, std::string_view option) {
    if (!given || job.least > 0) return;
    throw UsageError(
        fmt::format("{} with --ranks {}: expected a range, as in --ranks 1:{}", option, job.ranks, job.ranks));
  };
  require_range(job.restarts > 0, fmt::format("--restarts {}", job.restarts));
  require_range(job.here.has_value(), fmt::format("--here {}", job.here.value_or(0)));
  require_range(job.listen.has_value(), "--listen");
  if (job.listen && !job.listen->etcd.empty()) {
    throw UsageError(fmt::format("--listen {}: expected [ADDRESS:]PORT, as in --listen 29400", job.listen->etcd));
  }
  require_range(job.patience.has_value(), "--patience");
  require_range(job.evict > Duration::zero(), "--evict");
  require_range(job.no_return, "--no-return");
  if (!job.secret_file.empty() && !job.listen) {
    throw UsageError("--token-file without --listen: expected both, since nobody else needs the secret");
  }
  if (EtcdAddress::is_meant_by(job.log) && job.listen) {
    const auto at = EtcdAddress::parse(job.log);
    if (!at) throw UsageError(text("--register: ", at.error().message));
  } else if (!job.log.empty() && (!job.listen || job.listen->port == 0)) {
    throw UsageError(
        fmt::format("--register {} without a port: expected --listen PORT, where members come back to", job.log));
  }
  if (!job.listen && job.here.value_or(job.ranks) < job.least) {
    throw UsageError(fmt::format("--here {} of at least {} ranks, and nobody else comes: expected more, or --listen",
                                 *job.here, job.least));
  }
}

void describe_hosts(CommandLine& line, ProgramRanks& job) {
  line.option(
      "--hosts", "LIST",
      "The ranks are started on these hosts, as in a,b:4,c: one on each, or so many, in their order. A launcher is "
      "started on each by the remote shell, with the same path as this command, or else found on PATH there. With "
      "--ranks N the first N; with MIN:MAX members change, and those beyond MAX are spares. Default: on this host.",
      [&job](std::string_view option, const std::string& text) { job.hosts = parse_hosts(option, text); });
  line.option("--rsh", "COMMAND",
              "With --hosts: the remote shell, and its options, which is called with the name of a host and a command "
              "for the shell there; this host needs none. Default: what STRETTO_RSH says, else ssh.",
              into(job.rsh));
  line.option("--rsh-timeout", "TIME",
              "With --hosts: so long all hosts have to answer, before the job is given up. Default 30s.",
              into(job.answer_within, "1m"));
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
