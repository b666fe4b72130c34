#include "stretto/membership/masters/job_address.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "stretto/base/descriptor.h"
#include "stretto/membership/etcd/candidacy.h"

namespace stretto {
namespace {

constexpr std::size_t kMostOfASecret = 4096;  // bytes

std::string without_line_end(std::string words) {
  while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.pop_back();
  return words;
}

/// What `call` says of a file, and why by errno.
std::string why_not(const char* call, const std::string& path) {
  return text(call, ' ', path, ": ", std::strerror(errno));
}

Result<std::string> secret_in(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return Error{Errc::unavailable, why_not("cannot open", path)};
  struct stat is {};
  if (::fstat(file.get(), &is) != 0) return Error{Errc::io, why_not("cannot look at", path)};
  if (is.st_uid != ::geteuid()) return Error{Errc::bad_input, text(path, " is another user's")};
  if ((is.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{Errc::bad_input, text("other users may read ", path, ": expected mode 600")};
  }
  std::array<char, kMostOfASecret> buffer;
  const ssize_t bytes = ::read(file.get(), buffer.data(), buffer.size());
  if (bytes < 0) return Error{Errc::io, why_not("cannot read", path)};
  std::string secret = without_line_end({buffer.data(), static_cast<std::size_t>(bytes)});
  if (secret.empty()) return Error{Errc::bad_input, text(path, " is empty: expected the secret of a job")};
  return secret;
}

}  // namespace

std::function<std::optional<std::pair<std::string, std::uint16_t>>()> JobAddress::finder() const {
  if (etcd.empty()) return {};
  const EtcdAddress at = EtcdAddress::parse(etcd).or_throw();
  return [asked = std::make_shared<Etcd>(at.servers), job = at.name] {
    std::optional<std::pair<std::string, std::uint16_t>> found;
    const auto master = Candidacy::master_in(*asked, job);
    if (const auto address = parse(master.value_or("")); address && !address->host.empty()) {
      found.emplace(address->host, address->port);
    }
    return found;
  };
}

std::string JobAddress::to_string() const {
  if (!etcd.empty()) return etcd;
  if (host.empty()) return text(port);
  return text(host.find(':') == std::string::npos ? host : text('[', host, ']'), ':', port);
}

Result<JobAddress> JobAddress::parse(const std::string& words) {
  if (EtcdAddress::is_meant_by(words)) {
    const auto at = EtcdAddress::parse(words);
    if (!at) return at.error();
    return JobAddress{.etcd = at->to_string()};
  }
  const std::size_t colon = words.rfind(':');
  std::string_view host = std::string_view(words).substr(0, colon == std::string::npos ? 0 : colon);
  const bool in_brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  const std::string_view digits = std::string_view(words).substr(colon == std::string::npos ? 0 : colon + 1);
  JobAddress address{.host = std::string(host)};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  const bool is_host = host.find_first_of(in_brackets ? "[]/ " : "[]/ :") == std::string_view::npos;
  if (error != std::errc() || end != digits.data() + digits.size() || colon == 0 || !is_host) {
    return Error{Errc::bad_input, "expected HOST:PORT or PORT, as in 10.0.0.1:29400, or etcd://HOST:PORT/NAME"};
  }
  return address;
}

std::string JobSecret::usual_file(const JobAddress& job) {
  const std::string name = job.etcd.empty() ? text(job.port) : EtcdAddress::parse(job.etcd).or_throw().name;
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  if (folder != nullptr && *folder != '\0') return text(folder, "/stretto-", name, ".token");
  return text("/tmp/stretto-", ::geteuid(), '-', name, ".token");
}

std::optional<Token> JobSecret::by_environment() {
  const char* const secret = std::getenv(kVariable);
  if (secret == nullptr || *secret == '\0') return std::nullopt;
  return token_of_secret(secret);
}

Result<Token> JobSecret::find(const std::string& file, const JobAddress& job) {
  const auto token = by_environment();
  if (file.empty() && token) return *token;
  const auto words = secret_in(file.empty() ? usual_file(job) : file);
  if (words) return token_of_secret(*words);
  if (!file.empty()) return words.error();
  return Error{words.error().code, text("the secret of the job is not known: ", words.error().message, "; expected ",
                                        kVariable, ", or the file that its launcher has named")};
}

SecretFile::SecretFile(std::string path, const Token& token) : path_(std::move(path)) {
  ::unlink(path_.c_str());
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const std::string line = digits_of(token) + '\n';
  if (file.get() < 0 || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw Failure({Errc::io, why_not("cannot write", path_)});
  }
}

SecretFile::~SecretFile() {
  if (!keeps_) ::unlink(path_.c_str());
}

}  // namespace stretto
