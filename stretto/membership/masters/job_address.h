#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/transport/hosts/hello.h"

namespace stretto {

/// Where the master of a job is found, by processes that something else has started.
struct JobAddress {
  /// The environment variable that says it to such a process: to_string().
  static constexpr const char* kVariable = "STRETTO_REGISTER";

  std::string host = {};  ///< an address, or a name; empty: this host
  std::uint16_t port = 0;
  /// EtcdAddress::to_string() where one of the job's launchers has the master (Candidacy); empty: it is as above.
  std::string etcd = {};

  /// Looks up where the newest master listens, for MasterLineOptions::find; empty where the address says that. Throws
  /// Failure as WebClient.
  std::function<std::optional<std::pair<std::string, std::uint16_t>>()> finder() const;

  /// "10.77.0.1:29400", "[fd77::1]:29400", "29400" for this host, or "etcd://10.77.0.1:2379/train".
  std::string to_string() const;
  /// Reads that. Errc::bad_input for anything else.
  static Result<JobAddress> parse(const std::string& words);
};

/// The secret of such a job, as a file that its user alone reads, and as the environment variable STRETTO_TOKEN.
class JobSecret {
 public:
  static constexpr const char* kVariable = "STRETTO_TOKEN";

  /// The file where a job keeps its secret if nobody says another: by the port, or its name in etcd, in the user's
  /// folder for such files.
  static std::string usual_file(const JobAddress& job);
  /// The secret that the variable holds; nothing where it is not set, or empty.
  static std::optional<Token> by_environment();
  /// That of a job: from `file` where one is named, else the variable's, else in the usual file. Errc::unavailable
  /// where there is none, Errc::bad_input where other users may read the file.
  static Result<Token> find(const std::string& file, const JobAddress& job);
};

/// A file with a new secret, for as long as a job lasts.
class SecretFile {
 public:
  /// Writes it, for this user alone. A file of this user's that is there is replaced. Throws Failure (Errc::io).
  SecretFile(std::string path, const Token& token);
  ~SecretFile();  ///< removes it, but for keep()
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;

  const std::string& path() const { return path_; }
  /// The file stays: another master of the job may come.
  void keep() { keeps_ = true; }

 private:
  const std::string path_;
  bool keeps_ = false;
};

}  // namespace stretto
