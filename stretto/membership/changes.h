#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/view.h"
#include "stretto/membership/world.h"

namespace stretto {

/// A world beside that of all, of the members that the newest view has there. What it calls is called by another thread
/// than the application's, or, in virtual time, while that waits or computes; one call at a time.
struct WorldBeside {
  std::string name;  ///< alike in all of its members
  /// In the order of their ranks there, this rank among them; empty: it is in none.
  std::function<std::vector<MemberNumber>(const View& newest)> members;
  /// Whether the world that was entered last has lost a member, and goes on no more.
  std::function<bool()> is_broken;
  /// All of its members have come. Null: this rank leaves the world where it is. May throw Failure: later again.
  std::function<void(std::shared_ptr<World> world)> enter;
};

/// Has a rank be in a WorldBeside, until it is destroyed: then the rank stays where it is.
class Following {
 public:
  virtual ~Following() = default;
  /// WorldBeside::members may say something else now, of the same view.
  virtual void look() = 0;
};

/// The membership of a rank in a job whose members change (RankContext::changes()). The rank goes from world to world:
/// its engine is stopped from outside, and when its application is at a call it waits for the next view, enters the
/// world of that, and says when it holds all rounds before it. Application thread.
class Changes {
 public:
  virtual ~Changes() = default;  ///< with the rank

  /// Outlives every world.
  virtual const Clock& clock() const = 0;
  /// The view of the present world.
  virtual const View& view() const = 0;
  /// The number by which the job knows this process for as long as it lives.
  virtual MemberNumber number() const = 0;
  /// 0 … most() − 1: no other member has it as long as this process lives.
  virtual int place() const = 0;
  /// Members that a view has at most.
  virtual int most() const = 0;
  /// Says whom to ask what this rank holds, from any thread, once the engine has stopped; null: it holds what the view
  /// says. When this returns nobody asks the one before any more.
  virtual void holds(std::function<Holding()> holding) = 0;
  /// Whether the engine of the present world has stopped. Any thread.
  virtual bool changing() const = 0;
  /// Requires: changing(). Waits for the next view, and for its members, and enters its world: RankContext::world() is
  /// another one from now on. What the rank has of the worlds before stays until begin(). Throws Failure:
  /// Errc::excluded where the others go on without this rank, Errc::aborted where too few are left, Errc::lost_peer
  /// without a master; and Left. After leave() it may be called without a change, and waits for one.
  virtual void enter() = 0;
  /// Whether this rank is to take the state of a member before it begins: without a model it has come into a world of
  /// two, itself the first, with one that gives that beside training. Where it fails enter() asks another one. Once the
  /// rank has said that it has the state, by begin(), it is like one that enters_late() the world of view().
  virtual bool is_given_beside() const { return false; }
  /// The rank holds all rounds before the present world. False: that has stopped, and its members change again.
  [[nodiscard]] virtual bool begin() = 0;
  /// The rank has taken the last round of all. Returns whether the job is over, for every member; false: members have
  /// changed, and this rank may get batches again. Throws as enter().
  [[nodiscard]] virtual bool finish() = 0;
  /// Whether this process has been told to leave the job, by SIGTERM. Any thread.
  virtual bool told_to_leave() const = 0;
  /// This rank computes no further batch, nothing of it is pending, and it has begun in its world: the others may go on
  /// without it, and enter() throws Left then. Where too few would be left the job is given up instead. For good;
  /// again: without effect.
  virtual void leave() = 0;
  /// Throws Failure (Errc::lost_peer) where there is no master any more: a rank that waits for a lost one would wait
  /// for ever.
  virtual void require_master() const = 0;
  /// This rank waits for others in a call, for a second by now, or does not any more: the master may go on without
  /// those that it waits for. Again: without effect.
  virtual void waits(bool does) = 0;
  /// This rank has handed over the first `batches` that it was ever handed by take(). The master hears so with the next
  /// one: where this rank is lost, none of these is what it was computing.
  virtual void handed_over(std::uint64_t batches) = 0;
  /// The next batch of the job's pool, which has so many in all, by a plan that a number stands for: its number.
  /// Nothing: there is none, unless some come back later of a member that is lost. Throws as enter(), and Failure
  /// (Errc::bad_input) where the job's batches are others.
  virtual std::optional<std::uint64_t> take(std::uint64_t batches, std::uint64_t plan) = 0;

  /// From now on this rank, which has begun, enters a world late where no other member waits for it there
  /// (View::is_awaited()), and goes on meanwhile without them, but by follow(), and by follow_comers() gives its state
  /// to members without a model (View::gives). The master hears at once that it has begun.
  virtual void enters_late() {}
  /// As enter(), where a member waits for this rank in the next world. False: it has not been entered, since nobody
  /// does any more, and this rank goes on without it.
  [[nodiscard]] virtual bool enter_if_awaited() {
    enter();
    return true;
  }

  /// Whether members can make worlds beside that of all, of some members each, which do not wait for a change.
  virtual bool some_may_meet() const { return false; }
  /// The newest view of which this rank has heard, whose world it may not have entered. Waits as long as this is of the
  /// epoch `known`, and up to `within`; in virtual time not at all. Any thread. Requires: some_may_meet(), as follow().
  virtual std::shared_ptr<const View> newest_view(std::uint64_t /*known*/, Duration /*within*/) { return nullptr; }
  /// Has this rank be in such a world from now on, which is met anew where a view has other members in it.
  virtual std::unique_ptr<Following> follow(WorldBeside /*beside*/) { return nullptr; }
  /// Has those that come ask this rank for its state: `asked` gets the world of each and this rank, which is rank 1
  /// there. It is called as what a WorldBeside calls is.
  virtual std::unique_ptr<Following> follow_comers(std::function<void(std::shared_ptr<World> world)> /*asked*/) {
    return nullptr;
  }
};

}  // namespace stretto
