#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/etcd/web.h"

namespace stretto {

/// Where a job has its register in etcd.
struct EtcdAddress {
  std::vector<std::string> servers = {};  ///< "host:port" of each member of etcd, or of some
  std::string name = {};                  ///< of the register among all that etcd holds

  /// Whether `words` mean a register in etcd, and not a file.
  static bool is_meant_by(std::string_view words) { return words.starts_with("etcd://"); }
  /// Reads "etcd://HOST:PORT[,HOST:PORT…]/NAME". Errc::bad_input for anything else.
  static Result<EtcdAddress> parse(std::string_view words);
  std::string to_string() const;  ///< that
};

/// A client of etcd 3.4 or newer, by its gateway for JSON, without a password. Each call waits for the answer, for
/// half a second a server at most. Where it has waited for nothing, one that rests fails at once for so long, and asks
/// one server at a time after that: its thread has something else to do. One thread an object.
class Etcd {
 public:
  using Revision = std::int64_t;  ///< counts up with each change of anything in etcd
  using Lease = std::int64_t;     ///< 0: none

  /// A key with its value, as bytes.
  struct Value {
    std::string key = {}, bytes = {};
    Revision revision = 0;  ///< of the last change
    Lease lease = 0;        ///< of a put: the key goes when that ends
  };
  /// All of it is made at once, or nothing.
  struct Change {
    std::vector<Value> if_as_is = {};       ///< only where each key has this revision; of 0: where it is not there
    std::vector<Value> puts = {};           ///< revisions are ignored
    std::vector<std::string> forgets = {};  ///< keys that begin so
  };

  /// Throws Failure as WebClient.
  explicit Etcd(std::vector<std::string> servers, Duration rests = Duration(0))
      : servers_(std::move(servers)), rests_(rests) {}

  /// All whose keys begin so, in the order of the keys. Errors as change().
  Result<std::vector<Value>> read(std::string_view begins);
  /// All from the first key to the one before `end`, likewise.
  Result<std::vector<Value>> read_range(std::string_view first, std::string_view end);
  /// The revision of the change; 0: it has not been made, since something is not as is said. Errc::lost_peer: no server
  /// can be reached; Errc::unavailable: etcd answers, and refuses; Errc::timeout: whether it has been made is unknown.
  Result<Revision> change(const Change& change);
  /// A lease that ends when it has not been renewed for so long.
  Result<Lease> lend(std::chrono::seconds length);
  /// False: it has ended.
  Result<bool> renew(Lease lease);
  /// Ends a lease. Where etcd does not hear it, it ends by itself.
  void give_back(Lease lease);

 private:
  Result<std::string> ask(const char* what, const std::string& words, bool changes);

  const std::vector<std::string> servers_;
  const Duration rests_;
  const SteadyClock clock_;
  std::size_t at_ = 0;            // the server that is asked first
  std::optional<Error> silence_;  // why a call has waited for nothing; no server has answered since
  TimePoint silent_until_;
  WebClient web_;
};

}  // namespace stretto
