#include "stretto/base/files/input_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <streambuf>
#include <string_view>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/machine/library_function.h"

namespace stretto {

namespace {

/// Reads a file that gzip has compressed. It is the machine's zlib that unpacks it, loaded when it is first needed:
/// whoever links the library, and a wheel for any machine, needs none to start.
class GzipReader {
 public:
  /// `file` stays the caller's, at its begin. Errc::unavailable where the machine has no zlib.
  static Result<GzipReader> open(int file);

  /// Fills as much of `out` as one call gives, and returns how much; 0 at the end. What is not compressed is read as it
  /// is. Errc::bad_input where the compressed data is damaged or ends too early, or where more comes out of it than of
  /// any text (a bomb of zeros); Errc::io where it cannot be read.
  Result<std::size_t> read(std::span<char> out);

  /// Whether read() has failed because the compressed data ends too early.
  bool is_cut() const { return cut_; }

 private:
  struct Closed {
    void operator()(void* file) const;
  };

  explicit GzipReader(void* file) : file_(file) {}

  std::unique_ptr<void, Closed> file_;  // zlib's gzFile
  std::uint64_t unpacked_ = 0;
  bool cut_ = false;
};

// Traces and tables of numbers have a tenth to a twentieth of their size; the most that the format can is 1,000 times.
constexpr std::uint64_t kMostTimes = 200, kAlwaysAllowed = 64 << 20;
constexpr int kCutCode = -5, kSystemCode = -1;  // Z_BUF_ERROR, Z_ERRNO

/// Of zlib.h. The functions of gzip files have no other types, and have not changed since 1995.
struct Zlib {
  void* (*gzdopen)(int, const char*) = nullptr;
  int (*gzread)(void*, void*, unsigned) = nullptr;
  int (*gzdirect)(void*) = nullptr;
  long (*gzoffset)(void*) = nullptr;
  const char* (*gzerror)(void*, int*) = nullptr;
  int (*gzclose)(void*) = nullptr;
};

/// None of its functions where the machine has none.
const Zlib& zlib() {
  static const Zlib loaded = [] {
    Zlib zlib;
    void* library = ::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    const bool all = library != nullptr && find_function(library, "gzdopen", zlib.gzdopen) &&
                     find_function(library, "gzread", zlib.gzread) &&
                     find_function(library, "gzdirect", zlib.gzdirect) &&
                     find_function(library, "gzoffset", zlib.gzoffset) &&
                     find_function(library, "gzerror", zlib.gzerror) && find_function(library, "gzclose", zlib.gzclose);
    return all ? zlib : Zlib();
  }();
  return loaded;
}

void GzipReader::Closed::operator()(void* file) const {
  zlib().gzclose(file);
}

Result<GzipReader> GzipReader::open(int file) {
  if (zlib().gzdopen == nullptr) {
    return Error{Errc::unavailable,
                 "it is compressed, and this machine has no zlib (libz.so.1); expected what gunzip "
                 "makes of it"};
  }
  const int own = ::dup(file);
  void* opened = own >= 0 ? zlib().gzdopen(own, "rb") : nullptr;
  if (opened == nullptr) {
    const int reason = errno;
    if (own >= 0) ::close(own);
    return Error{Errc::io, std::strerror(reason != 0 ? reason : ENOMEM)};
  }
  return GzipReader(opened);
}

Result<std::size_t> GzipReader::read(std::span<char> out) {
  errno = 0;
  const int got = zlib().gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
  int code = 0;
  if (got <= 0) {
    const int system = errno;
    (void)zlib().gzerror(file_.get(), &code);
    cut_ = code == kCutCode;
    if (code == kSystemCode) return Error{Errc::io, std::strerror(system != 0 ? system : EIO)};
    if (cut_) return Error{Errc::bad_input, "it is cut off: its compressed data ends too early"};
    if (got < 0 || code < 0) return Error{Errc::bad_input, "its compressed data is damaged"};
    return std::size_t{0};
  }
  unpacked_ += static_cast<std::uint64_t>(got);
  const auto packed = static_cast<std::uint64_t>(zlib().gzoffset(file_.get()));
  if (unpacked_ > kAlwaysAllowed && unpacked_ > kMostTimes * packed && zlib().gzdirect(file_.get()) == 0) {
    return Error{Errc::bad_input, text("more than ", kMostTimes,
                                       " times its size comes out of it; expected text that "
                                       "was compressed once")};
  }
  return static_cast<std::size_t>(got);
}

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// What else than text begins so; null where nothing is known to.
const char* kind_of(std::string_view begin) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kKinds{{
      {"\xff\xfe", "text in UTF-16; expected UTF-8"},
      {"\xfe\xff", "text in UTF-16; expected UTF-8"},
      {kGzip, "compressed twice; expected what gunzip makes of it"},
      {"\x28\xb5\x2f\xfd", "compressed by zstd; expected the file itself, or one that gzip has compressed"},
      {"\xfd"
       "7zXZ",
       "compressed by xz; expected the file itself, or one that gzip has compressed"},
      {"BZh", "compressed by bzip2; expected the file itself, or one that gzip has compressed"},
      {"PK\x03\x04", "a zip archive; expected a file of it"},
  }};
  for (const auto& [mark, kind] : kKinds) {
    if (begin.starts_with(mark)) return kind;
  }
  // A letter of UTF-16 without a mark; text has no zeros.
  if (begin.size() >= 2 && (begin[0] == '\0') != (begin[1] == '\0')) return kKinds.front().second;
  return nullptr;
}

}  // namespace

class InputFile::Buffer final : public std::streambuf {
 public:
  /// Takes over `file`. `name` as errors have it; more than `most` bytes are an error.
  Buffer(int file, std::string name, std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
      : file_(file), name_(std::move(name)), most_(most) {}
  ~Buffer() override { ::close(file_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Looks at the begin of a text.
  Result<void> begin_text() {
    // What has been read of a pipe cannot be read again: zlib tells itself what is not compressed.
    const bool is_pipe = ::lseek(file_, 0, SEEK_CUR) < 0;
    if (is_pipe) static_cast<void>(unpack());
    if (underflow() == traits_type::eof()) return whole();
    if (!gzip_ && begins_with(kGzip)) {
      ::lseek(file_, 0, SEEK_SET);
      if (const auto unpacking = unpack(); !unpacking) return named(unpacking.error());
      setg(nullptr, nullptr, nullptr);
      read_ = 0;
      if (underflow() == traits_type::eof()) return whole();
    }
    if (auto begun = refuse_what_is_no_text(); !begun) return begun;
    if (begins_with(kByteOrderMark)) gbump(static_cast<int>(kByteOrderMark.size()));
    return {};
  }

  /// Looks at the begin of a text that stays compressed where it is.
  Result<void> begin_packed() {
    if (underflow() == traits_type::eof()) return whole();
    return begins_with(kGzip) ? Result<void>() : refuse_what_is_no_text();
  }

  Result<void> whole() const {
    if (error_) return named(*error_);
    return {};
  }
  bool is_cut() const { return has_zero_ || (gzip_ && gzip_->is_cut()); }
  std::uint64_t consumed() const { return consumed_; }

 private:
  int_type underflow() override {
    if (gptr() == egptr()) {
      const std::size_t got = error_ ? 0 : fill();
      setg(chunk_.data(), chunk_.data(), chunk_.data() + got);
      read_ += got;
      if (is_text_) end_at_zero();
      if (read_ > most_) {
        setg(nullptr, nullptr, nullptr);
        error_ = Error{Errc::bad_input,
                       text("more than ", most_ >> 30, " GiB comes from it; expected less, or the name of a file")};
      }
      if (gptr() == egptr()) return traits_type::eof();
    }
    return traits_type::to_int_type(*gptr());
  }

  /// Of the first chunk, and from then on. What has whole lines before a byte of 0 is read to there.
  Result<void> refuse_what_is_no_text() {
    if (const char* kind = kind_of(chunk())) return Error{Errc::bad_input, text(name_, " is ", kind)};
    is_text_ = true;
    end_at_zero();
    return chunk().find('\n') != std::string_view::npos ? Result<void>() : whole();
  }

  /// Ends the chunk that has just been read, and the file, before a byte of 0. The rest of a sparse file has no others:
  /// a reader of lines would take it for one line.
  void end_at_zero() {
    const std::size_t zero = chunk().find('\0');
    if (zero == std::string_view::npos) return;
    has_zero_ = true;
    error_ = Error{Errc::bad_input,
                   text("it is no text: byte ", read_ - chunk().size() + zero + 1, " of it is 0; expected UTF-8")};
    setg(gptr(), gptr(), gptr() + zero);
  }

  /// Until there is enough to see how a file begins, or it ends.
  std::size_t fill() {
    constexpr std::size_t kLongestMark = 8;
    std::size_t got = 0;
    while (got < kLongestMark) {
      auto more = read(std::span(chunk_).subspan(got));
      if (!more) error_ = more.error();
      if (!more || *more == 0) break;
      got += *more;
    }
    if (const auto at = ::lseek(file_, 0, SEEK_CUR); at > 0) consumed_ = static_cast<std::uint64_t>(at);
    return got;
  }

  Result<std::size_t> read(std::span<char> out) {
    if (gzip_) return gzip_->read(out);
    ssize_t got = 0;
    while ((got = ::read(file_, out.data(), out.size())) < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io, std::strerror(errno)};
    return static_cast<std::size_t>(got);
  }

  Result<void> unpack() {
    auto gzip = GzipReader::open(file_);
    if (!gzip) return gzip.error();
    gzip_.emplace(std::move(gzip).value());
    return {};
  }

  /// What has been read and not taken.
  std::string_view chunk() const { return {gptr(), static_cast<std::size_t>(egptr() - gptr())}; }
  bool begins_with(std::string_view mark) const { return chunk().starts_with(mark); }
  Error named(const Error& error) const { return {error.code, text("cannot read ", name_, ": ", error.message)}; }

  const int file_;
  const std::string name_;
  const std::uint64_t most_;
  std::optional<GzipReader> gzip_;
  std::optional<Error> error_;
  bool is_text_ = false;    // and begins as such
  bool has_zero_ = false;   // where it ends for its readers
  std::uint64_t read_ = 0;  // bytes, unpacked ones where it is unpacked
  std::uint64_t consumed_ = 0;
  std::array<char, 1 << 16> chunk_;
};

InputFile::InputFile(std::unique_ptr<Buffer> buffer)
    : buffer_(std::move(buffer)), stream_(std::make_unique<std::istream>(buffer_.get())) {}
InputFile::InputFile(InputFile&&) noexcept = default;
InputFile::~InputFile() = default;

Result<void> InputFile::whole() const {
  return buffer_->whole();
}

bool InputFile::is_cut() const {
  return buffer_->is_cut();
}

std::uint64_t InputFile::consumed() const {
  return buffer_->consumed();
}

Result<InputFile> InputFile::open(std::unique_ptr<Buffer> buffer, FileContent content) {
  if (content != FileContent::bytes) {
    const auto begun = content == FileContent::text ? buffer->begin_text() : buffer->begin_packed();
    if (!begun) return begun.error();
  }
  return InputFile(std::move(buffer));
}

Result<InputFile> open_file(const std::string& path, FileContent content) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (is_directory(status)) return Error{Errc::io, text("cannot read '", path, "': it is a folder")};
  if (exists(status) && !is_regular_file(status)) {
    return Error{Errc::io, text("cannot read '", path, "': it is no file")};
  }
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Error{Errc::io, text("cannot open '", path, "': ", std::strerror(errno))};
  return InputFile::open(std::make_unique<InputFile::Buffer>(file, text("'", path, "'")), content);
}

std::string stored_as(const std::string& path) {
  std::error_code unknown;
  const std::string compressed = path + ".gz";
  return !std::filesystem::exists(path, unknown) && std::filesystem::exists(compressed, unknown) ? compressed : path;
}

Result<InputFile> open_standard_input(FileContent content) {
  const int file = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return Error{Errc::io, text("cannot read standard input: ", std::strerror(errno))};
  return InputFile::open(std::make_unique<InputFile::Buffer>(file, "standard input", kMostOfStandardInput), content);
}

Result<std::string> read_all(Result<InputFile> file) {
  if (!file) return Error{Errc::bad_input, file.error().message};
  std::string content;
  std::array<char, 1 << 16> chunk;
  while (file->stream().read(chunk.data(), chunk.size()) || file->stream().gcount() > 0) {
    content.append(chunk.data(), static_cast<std::size_t>(file->stream().gcount()));
  }
  if (const auto whole = file->whole(); !whole) return whole.error();
  return content;
}

}  // namespace stretto
