#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/base/mutex.h"
#include "stretto/collective/base/collective_base.h"
#include "stretto/collective/lines/grid_counts.h"
#include "stretto/collective/lines/line_agent.h"
#include "stretto/collective/lines/line_round.h"
#include "stretto/collective/lines/line_ways.h"
#include "stretto/collective/lines/slice_codec.h"
#include "stretto/collective/rounds/lines/node_models.h"
#include "stretto/collective/rounds/lines/previous_slices.h"
#include "stretto/collective/schedules/line_schedule.h"
#include "stretto/kernel/bucket.h"

namespace stretto {

/// The means that a round of a line has brought to a node, as sums; with Compression::int8 as they are.
struct LineResult {
  LineResult(std::span<const BucketSpec> buckets, int nodes) : sums(buckets, 0), who(static_cast<std::size_t>(nodes)) {}

  Round round = 0;
  StandingModel* brought = nullptr;    ///< with ElasticUpdate::carry what this node has contributed, pinned
  std::optional<TimePoint> published;  ///< when that was; nothing: it has contributed none
  Contribution sums;                   ///< that of each slice, in place
  std::vector<RankSet> who;            ///< by slice: the ranks of the job whose models are in it; none: it has not come

 private:
  friend class LineRounds;
  int uses_ = 0;        // by the engine, until the round has retired, and by the application
  bool taken_ = false;  // by the application: means that come later do not count
};

/// The rounds of one line of a grid, over an engine: tells LineAgent and LineRound of what comes, and carries out what
/// they decide (docs/protocol.md, Lines of a grid). The engine never touches the live model: it sends models that have
/// been published, and sums into memory of its own, which the application reads at its next step boundary.
class LineRounds final : public CollectiveBase, private BodyCodec {
 public:
  /// `members`: the ranks of this node's line, ascending, itself among them. `models` outlives these. The lines of a
  /// dimension are one collective: every rank of the job makes its own.
  LineRounds(Engine& engine, const std::string& dimension, const std::vector<BucketSpec>& buckets,
             const LineOptions& options, std::vector<int> members, NodeModels& models);
  ~LineRounds() override;

  // ---- the application's thread ----

  /// Whether a round is complete that the application has not taken, also one with nothing for it.
  bool may_take() const;
  /// The rounds that are complete, oldest first; valid until applied(). With ElasticUpdate::carry those alone to which
  /// this node has contributed.
  std::vector<LineResult*> take();
  /// The application has applied what it has taken, and `newest` is its model, after so many further own steps.
  void applied(StandingModel& newest, std::uint64_t steps);
  /// No round is opened any more, and those under way end as they are.
  void stop();
  /// Since stop(): the engine uses no memory of a round any more.
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  /// Whether the model of this version or a later one has been contributed, and what came of it has been applied.
  bool has_given(std::uint64_t version) const;
  int rank() const { return engine_.rank(); }
  Traffic traffic() const { return engine_.traffic(); }  ///< of all that goes over its engine
  void abort(Driver& driver, const Error& why) { failure_.abort(driver, why); }
  bool failed() const { return failure_.failed(); }
  std::optional<Error> failure() const { return failure_.error(); }
  int num_results() const;
  /// Of memory beside models and results: slices that stand in for missing ones, and what links know.
  std::uint64_t other_bytes() const { return previous_.bytes() + codec_.bytes(); }
  GridCounts counts() const;
  /// Where the line has had no round for ten seconds, and this node is its line master and waits itself: for whom, in
  /// words, once for each ten of them. Empty: nothing to say.
  std::string take_line();

 private:
  enum Control : std::uint16_t { kStart = kControlChannel, kComplete };
  static constexpr Duration kSilence = std::chrono::seconds(10);  // without a round, before it is said for whom

  /// A round stays open until the application has taken it, a newer one forces it, or it has nothing for it.
  struct Flight {
    LineRound round;
    StandingModel* brought;        // pinned until all of it has been sent that will be; null: a header alone
    std::vector<OpId> ways;        // by member
    LineResult* result = nullptr;  // null: the engine has not begun with it
    bool over = false;             // the engine completes it, or has
  };

  bool poll(TimePoint now) override;
  TimePoint poll_by() const override;
  bool admit(Round round, const Envelope& envelope) override;
  bool call(Round round, OpId op, std::uint32_t hook) override;
  void retired(Round round) override;
  bool hear(int peer, const Envelope& envelope, std::span<const std::byte> head) override;
  void lost(int peer, const Error& reason) override;
  void left(int peer, const Error& reason) override;

  std::size_t encode(int peer, std::uint16_t channel, std::span<const std::byte> body, std::byte* to) override;
  bool sees_all() const override { return codec_.sees_all(); }
  bool decode(int peer, std::uint16_t channel, std::span<const std::byte> body, std::span<std::byte> to) override;

  /// An action of the agent, with the model that it contributes, pinned.
  struct Action {
    LineAgent::Action what;
    StandingModel* model = nullptr;
  };
  /// Has the agent hear of something, and carries out what it says.
  void tell(FunctionRef<void(LineAgent&)> hears);
  /// A suspected line master to which a message is on its way is told when that has left. Until then words to it would
  /// pile up.
  bool is_told_later(int master) const REQUIRES(mutex_) {
    return master < agent_.line_master() && ways_.is_busy(master);
  }
  void perform(const Action& action, TimePoint now);
  void open(Round round, StandingModel* model, TimePoint now);
  void begin(Round round, Flight& flight);
  bool may_send(Round round, Flight& flight, int member, OpId way);
  void sent(Round round, Flight& flight, int member);
  void force(Round round);
  void drop(Round round);
  void conclude(Round round, Flight& flight, std::uint64_t GridCounts::*count);
  void end(Round round, Flight& flight);
  void end_what_is_taken();
  bool carry_on(TimePoint now);
  void look_at_master(TimePoint now);
  void note_whether_stopped();
  void say_who_is_missing(TimePoint now);
  RankSet missing() const REQUIRES(mutex_);
  void average(Round round, Flight& flight);
  void contributed(Round round, Flight& flight, int member, TimePoint now);
  void let_go_of_model(Round round, Flight& flight);
  void release(LineResult& result) REQUIRES(mutex_);
  Flight& flight(Round round);
  int number_of(int rank) const;
  int nodes() const { return static_cast<int>(members_.size()); }
  bool is_alone() const { return members_.size() == 1; }  // nothing happens in its line
  RoundHeader& header(Round round, BufferId buffer) { return engine_.header(id_, round, buffer); }

  const std::vector<BucketSpec> buckets_;
  const LineOptions options_;
  const std::vector<int> members_;
  const int own_;
  const LineBuffers buffers_;
  const Schedule schedule_;
  NodeModels& models_;
  OpId average_op_, complete_op_;

  // The driver thread's.
  std::deque<std::pair<Round, Flight>> flights_;  // that have not retired
  LineWays ways_;
  PreviousSlices previous_;
  SliceCodec codec_;
  bool changed_ = false;   // since poll()
  TimePoint waits_since_;  // for the line master
  TimePoint say_at_;       // who is missing, unless a round opens before

  mutable Mutex mutex_;
  LineAgent agent_ GUARDED_BY(mutex_);
  StandingModel* newest_ GUARDED_BY(mutex_) = nullptr;  // as the agent knows it; pinned
  std::uint64_t contributed_ GUARDED_BY(mutex_) = 0;    // the last version
  std::vector<std::unique_ptr<LineResult>> results_ GUARDED_BY(mutex_);
  std::map<Round, LineResult*> waiting_ GUARDED_BY(mutex_);  // complete, and not taken
  GridCounts counts_ GUARDED_BY(mutex_);
  std::string line_ GUARDED_BY(mutex_);  // to be told a person
  std::vector<LineResult*> taken_;       // the application's
  std::uint64_t steps_ = 0;              // likewise: since the last round that it has applied

  std::atomic<bool> stops_{false}, stopped_{false};
};

}  // namespace stretto
