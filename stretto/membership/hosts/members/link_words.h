#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/views/member_words.h"
#include "stretto/membership/views/view.h"

namespace stretto {

// Words between a process and a master, as they travel: over a Line, read and written as those of peer_words.h.

/// A process's words to a master. From `hello` on it speaks for a member; before, and without it, for whom it likes.
struct ProcessWords {
  static constexpr const char* kName = "its word as a member";
  enum class Kind {
    hello,    ///< HelloWords, of the process `words`, which has `taken` batches
    report,   ///< ReportWords
    begun,    ///< the world of `epoch` has begun for it
    done,     ///< it has taken the last round, in `epoch`
    leaving,  ///< nothing of it is pending
    waits,    ///< it stands in a call, and waits for others, for a second by now
    goes_on,  ///< it does not any more
    take,     ///< it wants the batch after the `taken` it has, of `batches` by `plan`, and has handed over `computed`
    come,     ///< it wants a number for a process, with the place `wish`
    ended,    ///< the process of `number`, for which it wanted one
    look,     ///< it wants to know how the job stands
    send,     ///< member `number` is to leave
    beat,     ///< it is there
    has,      ///< it has the process of `number` at the place `wish`, for which it wanted one over another connection
    publish,  ///< where the members of `epoch` meet, or others in their `meeting`: `words`, of the first of them
    misses,   ///< it finds no way to member `number` of `epoch`
    result,   ///< its RankContext::report(): `words`; answered by `heard`
  };
  Kind kind = Kind::hello;
  HelloWords hello = {};
  ReportWords report = {};
  std::uint64_t epoch = 0;
  std::uint64_t batches = 0;
  std::uint64_t plan = 0;
  std::uint64_t taken = 0;
  std::uint64_t computed = 0;
  MemberNumber number = 0;
  std::optional<int> wish = {};
  std::string words = {};
  std::string meeting = {};  ///< its name; empty: that of all members of `epoch`

  static ProcessWords of(Kind kind, MemberNumber number = 0) {
    ProcessWords words;
    words.kind = kind;
    words.number = number;
    return words;
  }

  std::string encoded() const;
  static Result<ProcessWords> decoded(std::string_view line);
};

/// A master's words to a process.
struct MasterWords {
  static constexpr const char* kName = "its master's word";
  enum class Kind {
    freeze,    ///< FREEZE(epoch)
    tell,      ///< the content of the register
    batch,     ///< the answer to `take`, with its `taken`
    refuse,    ///< the process does not fit
    place,     ///< the answer to `come`: `number` and `place` of `places`
    stands,    ///< the answer to `look`: `content`, and `beside`
    kill,      ///< the process of `number`, for which this one wanted it: the others go on without it
    leave,     ///< the process is to leave
    beat,      ///< it is there, and a host that is silent for `limit` is lost; it may be started again for `patience`
    lost,      ///< the process of `number`, for which this one wanted it, with its host, which was silent
    meet,      ///< where the members of `epoch` meet, or others in their `meeting`: `words`
    heard,     ///< the answer to `result`
    not_come,  ///< the job has ended, and the process of `number`, for which this one wanted it, has never come
  };
  Kind kind = Kind::freeze;
  std::uint64_t epoch = 0;
  std::shared_ptr<const Registered> content = {};  ///< null of others
  std::optional<std::uint64_t> batch = {};         ///< nothing: there is none now
  std::uint64_t taken = 0;
  std::string why = {};  ///< of a refusal
  MemberNumber number = 0;
  int place = 0;
  int places = 1;
  JobBeside beside = {};
  std::string words = {};
  std::string meeting = {};  ///< as of ProcessWords
  Duration limit = Duration(0), patience = Duration(0);
  bool has_hosts = false;  ///< of a beat: members may be on several

  static MasterWords of(Kind kind, MemberNumber number = 0) {
    MasterWords words;
    words.kind = kind;
    words.number = number;
    return words;
  }
  static MasterWords of_batch(std::optional<std::uint64_t> batch, std::uint64_t taken) {
    MasterWords words;
    words.kind = Kind::batch;
    words.batch = batch;
    words.taken = taken;
    return words;
  }
  static MasterWords of_refusal(std::string why) {
    MasterWords words;
    words.kind = Kind::refuse;
    words.why = std::move(why);
    return words;
  }
  static MasterWords of_freeze(std::uint64_t epoch) {
    MasterWords words;
    words.epoch = epoch;
    return words;
  }

  std::string encoded() const;
  static Result<MasterWords> decoded(std::string_view line);
};

}  // namespace stretto
