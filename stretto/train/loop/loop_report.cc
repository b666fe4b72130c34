#include "stretto/train/loop/loop_report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/base/words.h"
#include "stretto/collective/protocol/policy.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

std::string file_of(const std::string& folder) {
  return folder + "/report.json";
}

}  // namespace

std::string loop_report_folder(const std::string& out, int index) {
  return text(out, "/optimizer-", index);
}

LoopReport report_of(const Ledger& ledger) {
  const RankAccount all = ledger.total();
  LoopReport report;
  report.ranks = ledger.ranks();
  report.batches = ledger.applied();
  report.seconds = ledger.seconds();
  report.staleness_mean = ledger.staleness_mean();
  report.staleness_max = ledger.staleness_max();
  report.computed = all.computed;
  report.waited = all.waited;
  report.lost_deposits = ledger.lost_deposits();
  report.ledger = ledger.to_text([](std::uint64_t word) { return Policy::decode(word).to_string(); });
  return report;
}

Result<void> write_loop_report(const std::string& folder, const LoopReport& r) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Errc::io, text("folder '", folder, "' cannot be made: ", error.message())};
  const ordered_json json = {{"algorithm", r.algorithm},
                             {"ranks", r.ranks},
                             {"batches", r.batches},
                             {"seconds", r.seconds},
                             {"staleness_mean", r.staleness_mean},
                             {"staleness_max", r.staleness_max},
                             {"computed", r.computed},
                             {"waited", r.waited},
                             {"lost_deposits", r.lost_deposits},
                             {"replicas_identical", r.replicas_identical},
                             {"recorded", r.recorded},
                             {"ledger", r.ledger}};
  return write_whole_file(file_of(folder), json.dump(2));
}

Result<LoopReport> read_loop_report(const std::string& folder) {
  const auto content = read_whole_file(file_of(folder));
  if (!content) return content.error();
  try {
    const auto json = ordered_json::parse(*content);
    LoopReport r;
    json.at("algorithm").get_to(r.algorithm);
    json.at("ranks").get_to(r.ranks);
    json.at("batches").get_to(r.batches);
    json.at("seconds").get_to(r.seconds);
    json.at("staleness_mean").get_to(r.staleness_mean);
    json.at("staleness_max").get_to(r.staleness_max);
    json.at("computed").get_to(r.computed);
    json.at("waited").get_to(r.waited);
    json.at("lost_deposits").get_to(r.lost_deposits);
    json.at("replicas_identical").get_to(r.replicas_identical);
    json.at("recorded").get_to(r.recorded);
    json.at("ledger").get_to(r.ledger);
    return r;
  } catch (const nlohmann::json::exception& wrong) {
    return Error{Errc::bad_input, text(file_of(folder), ": ", json_fault(wrong))};
  }
}

}  // namespace stretto
