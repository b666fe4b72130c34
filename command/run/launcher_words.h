#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command/run/program_ranks.h"
#include "stretto/base/error.h"

namespace stretto::command {

// Words between the launcher that a person has started, the caller, and those that it has started on the hosts of the
// job: a line of JSON each, over the standard input and output of these. Before its words a host's launcher says
// hello_line(), in front of which a login shell may have written what it likes.

/// "stretto launcher VERSION".
std::string hello_line();
/// How that begins in every version.
inline constexpr std::string_view kHelloBegins = "stretto launcher ";

/// Each says so often in the time after which the other one takes it for gone that it is there.
inline constexpr int kBeatsInLiveness = 10;

/// The caller's words.
struct CallerWords {
  static constexpr const char* kName = "its launcher's word";
  enum class Kind {
    job,     ///< `job`, with `environment` and `folder`
    begin,   ///< all are ready: rank 0 is at `place`
    signal,  ///< the caller got the signal `number`
    end,     ///< a rank on another host has failed
    beat,    ///< it is there
  };
  Kind kind = Kind::beat;
  ProgramRanks job = {};  ///< with the host's place in it
  std::vector<std::string> environment = {};
  std::string folder = {};
  PlaceOfFirst place = {};
  int number = 0;

  std::string encoded() const;
  static Result<CallerWords> decoded(std::string_view line);
};

/// A host's launcher's words.
struct HostWords {
  static constexpr const char* kName = "the word of a host's launcher";
  enum class Kind {
    ready,    ///< it has the job; `place`, where rank 0 is to be here
    refused,  ///< it cannot begin: `words`
    out,      ///< ranks have written `words`, whole lines, to standard output
    errors,   ///< the same, to standard error
    failed,   ///< a rank has failed with the exit status `number`, and the others here are told to end
    ended,    ///< all ranks here have ended, and so will it
    beat,     ///< it is there
  };
  Kind kind = Kind::beat;
  PlaceOfFirst place = {};
  std::string words = {};
  int number = 0;

  std::string encoded() const;
  static Result<HostWords> decoded(std::string_view line);
};

/// Takes the first whole line from bytes that have come. Returns whether there was one.
bool take_line(std::string& bytes, std::string& line);

}  // namespace stretto::command
