#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// How it stands with a process in its job.
enum class Standing : std::uint8_t {
  present,   ///< a member, or one that wants to become one
  finished,  ///< the job has ended, and it was there
  given_up,  ///< the job has ended without its last round
  departed,  ///< it has left, and all it has computed counts
  excluded,  ///< the others go on without it: all since the last view is void. It may come back by another number
};

/// A process's side of views that change: which word of a master counts, when it may go from world to world, what it
/// says to a new master. Pure: no thread, clock or socket; calls come one at a time. The caller stops the engine,
/// counts what it holds, makes worlds and carries words.
class Member {
 public:
  /// A learner: of no view yet.
  Member(MemberNumber number, std::string host, std::map<std::string, std::string> terms);

  MemberNumber number() const { return number_; }
  Standing standing() const { return standing_; }
  /// Whether it has gone as it wished, or as it was `told_to`.
  bool has_gone(bool told_to) const;
  /// Throws Failure where it is not present any more, and has not gone either: Errc::aborted, Errc::excluded.
  void require_present() const;
  /// The view of the world it is in; of epoch 0: none yet.
  const View& view() const { return *view_; }
  /// Whether the world it is in has begun for it: it holds all rounds before the world.
  bool has_begun() const { return has_begun_; }
  bool is_leaving() const { return leaving_; }
  bool is_done() const { return done_; }

  /// FREEZE(epoch) has come. True: the caller stops the engine for good, and then answers with report(), as often as it
  /// is asked: to all masters, since the one that has asked may be lost, and another has to go on then. False: it is of
  /// a world that is over. Nothing is done but to say hello() again, by which a master that other ones have overtaken
  /// learns to read the register.
  [[nodiscard]] bool freeze(std::uint64_t epoch);
  /// Whether the engine of its world has to stand still: no round is completed, and no result taken, that was not
  /// complete when it stopped.
  bool is_frozen() const { return frozen_ && *frozen_ >= view_->epoch; }
  /// `holding` is read after the engine has stopped; until has_begun() it is what the process holds by itself, whatever
  /// views say. Requires: freeze(epoch) was true.
  ReportWords report(std::uint64_t epoch, const Holding& holding) const;

  /// A master has said what the register holds. The newest counts.
  void tell(const std::shared_ptr<const Registered>& content);
  /// The newest view of which it has heard.
  const std::shared_ptr<const View>& newest() const { return told_ != nullptr ? told_ : view_; }
  /// The view whose world it may enter at its next call; null: none, or the members of that world are asked again.
  std::shared_ptr<const View> next() const;
  /// Its application is at a call, and has taken all results that it holds. Requires: next().
  const View& enter();
  /// The process holds all rounds before the world, and the caller forgets its own deposits in them. False: it was
  /// stopped before, and stays as it is.
  [[nodiscard]] bool begin();
  /// Its application has taken the last round of all. False: the world is over, and its application goes on in another.
  [[nodiscard]] bool finish();
  /// The process wants to go when nothing of it is pending. For good.
  void leave() { leaving_ = true; }

  /// The process's words to a new master, before anything else; has_begun(), is_done() and is_leaving() follow where
  /// they hold.
  HelloWords hello() const;

  /// Puts behind `words` all that it does from now on depends on.
  void describe(std::vector<std::int64_t>& words) const;

 private:
  void hear_of_view(const std::shared_ptr<const View>& view);

  MemberNumber number_;
  std::string host_;
  std::map<std::string, std::string> terms_;
  Standing standing_ = Standing::present;
  std::shared_ptr<const View> view_ = std::make_shared<const View>();  // of its world
  std::shared_ptr<const View> told_;                                   // a later one; null: none
  std::optional<std::uint64_t> frozen_;                                // the last epoch in which it has answered FREEZE
  bool has_begun_ = false, done_ = false;                              // in its world
  bool leaving_ = false;
};

}  // namespace stretto
