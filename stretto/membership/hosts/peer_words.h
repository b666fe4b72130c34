#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/membership/hosts/liveness/clock_offset.h"
#include "stretto/membership/hosts/liveness/liveness_rule.h"
#include "stretto/membership/hosts/settings.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

// Words of one rank to another, a struct a kind. encoded() writes them as one line. decoded() takes any line and does
// not throw: its Error (Errc::bad_input) says which words cannot be read, and why. All but MeetingPlace are objects of
// JSON, and travel over a Line.

/// A rank's first words to rank 0.
struct ArrivalWords {
  static constexpr const char* kName = "its arrival";  ///< in an Error, as in the structs below
  std::string host;                                    ///< ranks of which this is the same may share memory
  std::string name;                                    ///< of the host, as it calls itself
  int process = 0;                                     ///< PID, 1 or more
  asio::ip::tcp::endpoint address;                     ///< at which the rank listens
  Settings settings = {};                              ///< of the rank
  std::string offer = {};                              ///< carrier_offer() of the rank

  std::string encoded() const;
  static Result<ArrivalWords> decoded(std::string_view line);
};

/// Rank 0's words to a rank that meets.
struct MeetingWords {
  static constexpr const char* kName = "its word of the meeting";
  enum class Kind {
    come,     ///< the rank is one of the meeting
    another,  ///< rank 0 is of another job, or of an older meeting of this one
    refused,  ///< nobody meets, because of `why`
    met,      ///< all ranks have come
  };
  Kind kind = Kind::come;
  std::optional<Error> why = {};
  std::string meeting = {};  ///< its name, where all have met
  struct Rank {
    int host = 0;                     ///< its number, from 0 on
    std::string name = {};            ///< of its host
    asio::ip::tcp::endpoint address;  ///< at which it listens
    std::string offer = {};           ///< its carrier_offer()
  };
  std::vector<Rank> ranks = {};

  std::string encoded() const;
  /// `ranks`: of the reader's job.
  static Result<MeetingWords> decoded(std::string_view line, int ranks);
};

/// A rank's words to rank 0 after the meeting.
struct RequestWords {
  static constexpr const char* kName = "its request";
  enum class Kind {
    add,     ///< `amount` to `counter`; CounterWords answer
    report,  ///< `report` is the rank's
    left,    ///< a goodbye
  };
  Kind kind = Kind::left;
  std::uint64_t id = 0;  ///< of the question
  int counter = 0;
  std::uint64_t amount = 0;
  std::string report = {};

  std::string encoded() const;
  static Result<RequestWords> decoded(std::string_view line);
};

/// Rank 0's answer: what a counter was.
struct CounterWords {
  static constexpr const char* kName = "its answer about a counter";
  std::uint64_t id = 0;  ///< of the question
  std::uint64_t was = 0;

  std::string encoded() const;
  static Result<CounterWords> decoded(std::string_view line);
};

/// Words between the ranks that speak for two hosts.
struct SpeakerWords {
  static constexpr const char* kName = "its news";
  enum class Kind {
    beat,
    fact,     ///< the speaker knows `fact`
    goodbye,  ///< the speaker ends once it hears
    heard,    ///< that the goodbye has come
  };
  Kind kind = Kind::beat;
  BeatTimes times = {};  ///< of a beat
  LivenessFact fact = {};

  std::string encoded() const;
  /// `ranks`, `hosts`: of the job.
  static Result<SpeakerWords> decoded(std::string_view line, int ranks, int hosts);
};

/// Where rank 0 listens, as a Bulletin has it: "host:port/token", or "host:port" where a person gave it.
struct MeetingPlace {
  static constexpr const char* kName = "its published address";
  std::string host;
  std::string port;
  std::optional<Token> token = {};

  std::string address() const;  ///< "host:port", "[::1]:port"
  std::string encoded() const { return address() + (token ? '/' + digits_of(*token) : ""); }
  static Result<MeetingPlace> decoded(std::string_view words);
};

}  // namespace stretto
