#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stretto/check/harness/job_search.h"
#include "stretto/check/harness/prime_field.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/collective/group_allreduce.h"
#include "stretto/collective/protocol/ticket.h"
#include "stretto/collective/rounds/groups/standing_rounds.h"

namespace stretto {

/// A job of ranks that average models in groups, drawn from a seed.
struct GroupJob {
  int ranks = 2;
  GroupOptions options;
  StaleRule stale = StaleRule::mix;
  bool publish_after = false;          ///< the model that an exchange has led to stands, too, not only the one before
  std::vector<std::uint64_t> batches;  ///< of each rank
  std::uint64_t length = 1;            ///< elements of the model's tail
  Machines machines;
  bool on_board() const { return machines.over == Over::board; }  ///< all at one
  bool shares_memory() const { return machines.shares_memory(); }
  std::string to_string() const;
};

/// The models of the job: a number of a prime field for the weights, the version of each rank's model in a place of its
/// own, so that a sum says which models are in it, and a tail that shows a model of which parts are older.
class GroupModels {
 public:
  explicit GroupModels(const GroupJob& job) : job_(job) {}
  std::vector<BucketSpec> buckets() const;
  /// Writes half `part` (0 or 1) of a rank's model.
  void write(Contribution& model, int rank, std::uint64_t version, Field weight, int part) const;
  /// The content of a sum.
  struct Content {
    std::vector<std::uint64_t> versions;  ///< of each rank's model in it; 0: none
    Field weight;
    bool whole = false;                                                ///< all parts agree
    friend bool operator==(const Content&, const Content&) = default;  ///< all fields are equal
  };
  Content read(std::span<const std::span<const std::byte>> sum) const;

 private:
  const GroupJob& job_;
};

/// Knows what every rank has published, and so what every sum and every model must be. Checks the promises of a group
/// allreduce (docs/groups.md, G1 to G11).
class GroupOracle {
 public:
  GroupOracle(const GroupJob& job, JobFinding& finding);

  void published(int rank, std::uint64_t version, Round ticket, Field weight);
  /// Under StaleRule::moves: the step of `rank` has been put on what stands.
  void settled(int rank, Round ticket, Field step);
  void joined(int rank, Round round, std::uint64_t version);
  void completed(int rank, const StandingSum& sum);
  /// The application of `rank` waits at `round`.
  void arrived(int rank, Round round) { at_[static_cast<std::size_t>(rank)].waits_at = round; }
  void drained(int rank) { at_[static_cast<std::size_t>(rank)].drained = true; }
  /// The application has used a result: its model was `before` and is `after`.
  void used(int rank, const GroupResult& result, Field before, Field after);
  /// The exchange of iteration `iteration` has returned.
  void exchanged(int rank, Round iteration);
  void look_at(int rank, const ProtocolState& state);
  /// Under StaleRule::moves, after every transition: what stands on each rank.
  void stands(const std::vector<Field>& weights);
  /// No message is under way, and all applications stand still.
  void quiet(const std::vector<ProtocolState>& states);
  void ended(const std::vector<bool>& done, const std::vector<Field>& models, const std::vector<std::uint64_t>& steps);

  void violated(std::string what) { finding_.violated(std::move(what)); }
  std::uint64_t rounds() const { return rounds_.size(); }
  std::uint64_t stale() const { return stale_; }
  std::uint64_t put_on_means() const { return put_on_means_; }
  std::uint64_t passed_over() const { return passed_over_; }

 private:
  struct Publication {
    Round ticket = 0;
    Field weight;
  };
  struct RankState {
    std::vector<Publication> publications;    // by version − 1; of moves all that have stood
    std::map<Round, std::uint64_t> versions;  // that rounds have been joined with
    std::optional<Round> waits_at;
    bool drained = false;
    std::optional<Round> in_sum;  // of moves: its model is in that of a round, and the mean does not stand yet
    std::uint64_t has = 1;        // of moves: the version that the application has
    Round used = 0;               // results of rounds before are used
    Round complete = 0;           // rounds that it has been told of
  };
  struct Group {
    bool checked = false;
    GroupModels::Content content;
    RoundHeader header;
    Field mean;
  };
  struct Expected {
    std::vector<int> group_of;  // the number of each rank's group
    std::vector<Group> groups;
  };

  Expected& expected(Round round);
  bool full(Round round) const { return (round + 1) % job_.options.full_every == 0; }
  void check_start(Round round);
  void check_sum(int rank, Round round, const GroupModels::Content& content);
  void check_moving_sum(int rank, Round round, const GroupModels::Content& content);
  bool moves() const { return job_.stale == StaleRule::moves; }

  const GroupJob& job_;
  const GroupModels models_;
  const Groups groups_;
  Round most_apart_;  // that two ranks may be, in rounds
  JobFinding& finding_;
  std::vector<RankState> at_;
  std::vector<Expected> rounds_;
  std::optional<Round> last_;  // the full round that showed all ranks drained
  std::uint64_t stale_ = 0, passed_over_ = 0, put_on_means_ = 0;
  Field steps_;  // of moves: the models at first, and all steps that have been put on one
};

}  // namespace stretto
