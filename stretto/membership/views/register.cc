#include "stretto/membership/views/register.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "stretto/base/defect.h"

namespace stretto {
namespace {

constexpr std::string_view kLogOf = "stretto register of job ";
constexpr std::size_t kChecksumDigits = 16;
constexpr char kNote = '+';                                  // before it; a content is an object of JSON
constexpr char kBeside = '\t';                               // before the words beside a content, if there are some
constexpr std::size_t kMostOldBytes = std::size_t{1} << 16;  // of contents before the newest, when a log is opened

std::string checksum_of(std::string_view words) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::uint64_t sum = XXH3_64bits(words.data(), words.size());
  std::string digits(kChecksumDigits, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, sum >>= 4) *digit = kDigits[sum & 15];
  return digits;
}

std::string entry_of(const std::string& words) {
  return text(checksum_of(words), ' ', words, '\n');
}

/// The words of an entry without its end of line, if its checksum is right.
std::optional<std::string_view> words_of(std::string_view entry) {
  if (entry.size() <= kChecksumDigits || entry[kChecksumDigits] != ' ') return std::nullopt;
  const std::string_view words = entry.substr(kChecksumDigits + 1);
  if (entry.substr(0, kChecksumDigits) != checksum_of(words)) return std::nullopt;
  return words;
}

Error io_error(const std::string& path, int reason) {
  return {Errc::io, text("the register's log '", path, "': ", std::strerror(reason))};
}

Result<std::string> all_of(const std::string& path, int file) {
  std::string all;
  std::array<char, 65536> piece;
  for (;;) {
    const ssize_t got = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(all.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, errno);
    if (got == 0) return all;
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
}

/// A new file's name stays only when its folder is on the disk, too.
int sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor opened(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return errno;
  return ::fsync(opened.get()) != 0 && errno != EINVAL ? errno : 0;
}

/// Adds all of `bytes` to a file that has `at` of them. Returns 0, or errno.
int write_at(int file, std::string_view bytes, std::uint64_t at) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t some =
        ::pwrite(file, bytes.data() + written, bytes.size() - written, static_cast<off_t>(at + written));
    if (some > 0) written += static_cast<std::size_t>(some);
    if (some < 0 && errno != EINTR) return errno;
  }
  return 0;
}

/// Whether an open file is the one of this name: another process may have put another one in its place.
bool is_at(const std::string& path, int file) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Puts a file of these bytes, open and locked, in the place of the one of this name, whole or not at all. Nothing: it
/// could not be written.
std::optional<Descriptor> replaced(const std::string& path, std::string_view bytes) {
  const std::string beside = path + ".new";
  Descriptor file(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return std::nullopt;
  const bool is_whole = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && write_at(file.get(), bytes, 0) == 0 &&
                        ::fsync(file.get()) == 0 && ::rename(beside.c_str(), path.c_str()) == 0;
  if (!is_whole) {
    ::unlink(beside.c_str());
    return std::nullopt;
  }
  (void)sync_folder_of(path);  // else the file before is there after a loss of power, which has the same newest content
  return file;
}

}  // namespace

std::string RegisterEntry::encoded() const {
  return words.empty() ? content.encoded() : text(content.encoded(), kBeside, words);
}

Result<RegisterEntry> RegisterEntry::decoded(std::string_view line) {
  const std::size_t split = line.find(kBeside);
  auto content = Registered::decoded(line.substr(0, split));
  if (!content) return content.error();
  return RegisterEntry{.content = *std::move(content),
                       .words = std::string(split == std::string_view::npos ? "" : line.substr(split + 1))};
}

bool Register::may_follow(const Registered& content, const View& view) {
  if (defect(Defect::members_unconditional)) return true;
  return content.end == JobEnd::none && view.epoch == content.view.epoch + 1;
}

bool Register::may_end(const Registered& content, std::uint64_t epoch) {
  return content.end == JobEnd::none && content.view.epoch == epoch;
}

Result<void> Register::keep_report(MemberNumber number, const std::string& report) {
  reports_[number] = report;
  return {};
}

Result<std::map<MemberNumber, std::string>> Register::reports() {
  return reports_;
}

Written MemoryRegister::commit(const View& view, const std::string&) {
  if (!may_follow(content_, view)) return Written::refused;
  content_.view = view;
  return Written::done;
}

Written MemoryRegister::end(std::uint64_t epoch, JobEnd how) {
  if (!may_end(content_, epoch)) return Written::refused;
  content_.end = how;
  return Written::done;
}

Result<std::unique_ptr<LogRegister>> LogRegister::open(const std::string& path, const std::string& job) {
  if (job.find('\n') != std::string::npos) throw UsageError("the name of a job is one line");
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return io_error(path, errno);
  struct stat what {};
  if (::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode)) {
    return Error{Errc::bad_input, text("'", path, "' is no log of a register: expected a file of a job's own")};
  }
  const bool is_locked = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked || !is_at(path, file.get())) {
    if (!is_locked && errno != EWOULDBLOCK) return io_error(path, errno);
    return Error{Errc::io,
                 text("the register's log '", path, "' is open in another process: one job has one master's log")};
  }
  std::unique_ptr<LogRegister> opened(new LogRegister(path, std::move(file)));
  if (const auto taken = opened->take_over(job); !taken) return taken.error();
  return opened;
}

/// Reads what is there, and begins the log where nothing is.
Result<void> LogRegister::take_over(const std::string& job) {
  const auto all = all_of(path_, file_.get());
  if (!all) return all.error();
  const std::string first = entry_of(text(kLogOf, job));
  // A log whose very first entry was cut off has never held a view.
  if (first.starts_with(*all) && *all != first) {
    if (const int reason = append(first); reason != 0) return io_error(path_, reason);
    if (const int reason = sync_folder_of(path_); reason != 0) return io_error(path_, reason);
    return {};
  }
  std::size_t at = all->find('\n');
  const auto named = words_of(std::string_view(*all).substr(0, at));
  if (!named || !named->starts_with(kLogOf)) {
    return Error{Errc::bad_input, text("'", path_, "' is no log of a register")};
  }
  if (const std::string_view other = named->substr(kLogOf.size()); other != job) {
    return Error{Errc::bad_input, text("the register's log '", path_, "' is of job '", other, "', and not of '", job,
                                       "': name another file")};
  }
  bytes_ = ++at;
  const std::size_t first_content = at;
  std::size_t newest = at, damaged = 0;
  while (at < all->size()) {
    const std::size_t begin = at, end = all->find('\n', at);
    const auto words = end == std::string::npos ? std::nullopt : words_of(std::string_view(*all).substr(at, end - at));
    at = end == std::string::npos ? all->size() : end + 1;
    if (words && take(*words)) {
      bytes_ = at;
      if (!words->starts_with(kNote)) newest = begin;
    } else {
      ++damaged;
      notes_are_whole_ = false;
    }
  }
  if (damaged > 0) {
    damage_ = text("the register's log '", path_, "' is damaged in ", damaged, damaged == 1 ? " entry" : " entries",
                   ": it goes on from epoch ", content_.view.epoch, ", the last one that is whole");
  }
  notes_are_whole_ = true;  // what was behind a missing one is cut off
  if (bytes_ < all->size() && ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return io_error(path_, errno);
  if (newest - first_content > kMostOldBytes) {  // where there is no room for another file it goes on growing
    const std::string kept = first + all->substr(newest, bytes_ - newest);
    if (auto file = replaced(path_, kept)) {
      file_ = *std::move(file);
      bytes_ = kept.size();
    }
  }
  return {};
}

bool LogRegister::take(std::string_view words) {
  if (words.starts_with(kNote)) {
    if (notes_are_whole_) beside_.emplace_back(words.substr(1));
    return notes_are_whole_;
  }
  auto entry = RegisterEntry::decoded(words);
  if (!entry) return false;
  content_ = std::move(entry->content);
  beside_.clear();
  if (!entry->words.empty()) beside_.push_back(std::move(entry->words));
  notes_are_whole_ = true;
  return true;
}

Result<Registered> LogRegister::read() {
  if (broken_) return Error{Errc::io, why_};
  return content_;
}

Written LogRegister::commit(const View& view, const std::string& words) {
  if (!broken_ && !may_follow(content_, view)) return Written::refused;
  return write({view, JobEnd::none}, words);
}

/// After a note that is missing none may follow: the next view stands for all of them.
Result<void> LogRegister::note(const std::string& line) {
  if (broken_ || !notes_are_whole_) return Error{Errc::io, why_};
  if (const int reason = append(entry_of(text(kNote, line)), Stays::in_memory); reason != 0) {
    why_ = io_error(path_, reason).message;
    notes_are_whole_ = false;
    return Error{Errc::io, why_};
  }
  return {};
}

Written LogRegister::end(std::uint64_t epoch, JobEnd how) {
  if (!broken_ && !may_end(content_, epoch)) return Written::refused;
  return write({content_.view, how}, {});
}

Written LogRegister::write(Registered next, const std::string& words) {
  if (broken_) return Written::unknown;
  RegisterEntry entry{.content = std::move(next), .words = words};
  if (const int reason = append(entry_of(entry.encoded())); reason != 0) {
    why_ = io_error(path_, reason).message;
    return Written::unknown;
  }
  content_ = std::move(entry.content);
  notes_are_whole_ = true;
  return Written::done;
}

/// Adds an entry that stays, or leaves the file as it was. Returns 0, or errno.
int LogRegister::append(const std::string& line, Stays stays) {
  int reason = write_at(file_.get(), line, bytes_);
  if (reason == 0 && stays == Stays::on_disk && ::fsync(file_.get()) != 0) reason = errno;
  if (reason == 0) {
    bytes_ += line.size();
    return 0;
  }
  broken_ = ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0 || ::fsync(file_.get()) != 0;
  return reason;
}

}  // namespace stretto
