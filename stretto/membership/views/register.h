#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/descriptor.h"
#include "stretto/base/error.h"
#include "stretto/membership/views/view.h"

namespace stretto {

/// The outcome of a write to the register.
enum class Written : std::uint8_t {
  done,
  refused,  ///< the register is at another epoch, or the job has ended: nothing has changed
  unknown,  ///< the register has not answered, or has no room: to be read again before anything else
};

/// An entry of a register outside of the process: a content, and the words with which it was written.
struct RegisterEntry {
  Registered content = {};
  std::string words = {};

  /// One line, if the words are.
  std::string encoded() const;
  /// Errc::bad_input for what encoded() cannot have written.
  static Result<RegisterEntry> decoded(std::string_view line);
};

/// The one cell that says who is in a job. All that members do follows from the order in which it is written: each
/// write is made whole or not at all, if the cell is as the writer believes. One thread an object; several objects, in
/// several processes, may stand for one register.
class Register {
 public:
  virtual ~Register() = default;

  /// The newest content: of epoch 0 before the first view. An Error that says why where the register does not answer.
  virtual Result<Registered> read() = 0;
  /// Makes `view` the newest, if that is of the epoch before and the job has not ended. `words`: what stands beside it
  /// from then on, in the place of what stood beside the view before. Requires: view.epoch ≥ 1.
  virtual Written commit(const View& view, const std::string& words) = 0;
  Written commit(const View& view) { return commit(view, {}); }
  /// Adds a line to what stands beside the newest view. It stays where this process is killed, and may be lost where
  /// its machine stops. Errc::io: there is no room for it, and none follows before the next view; Errc::excluded:
  /// another object has written to the register since.
  virtual Result<void> note(const std::string& line) = 0;
  /// The lines that stood beside the newest view when this object was made, or has read it since: the words with which
  /// it was written, unless they were empty, and the lines since.
  virtual const std::vector<std::string>& beside() const = 0;
  /// Ends the job, if the newest view is of `epoch` and the job has not ended. Requires: how != JobEnd::none.
  virtual Written end(std::uint64_t epoch, JobEnd how) = 0;
  /// Keeps what the process of a member has reported (RankContext::report()), in the place of what it had before.
  virtual Result<void> keep_report(MemberNumber number, const std::string& report);
  /// All of them, by the members' numbers: of this object, or where it is shared of all.
  virtual Result<std::map<MemberNumber, std::string>> reports();
  /// Why the last write has been unknown, for a line to a person.
  virtual std::string why() const = 0;
  /// Whether objects of other processes may write to the register, too.
  virtual bool is_shared() const { return false; }
  /// Where they do, which of the job's masters writes by this object: a later one has a larger number.
  virtual std::uint64_t term() const { return 0; }

 protected:
  /// Whether commit() may write `view`, where `content` is there.
  static bool may_follow(const Registered& content, const View& view);
  /// The same of end().
  static bool may_end(const Registered& content, std::uint64_t epoch);

 private:
  std::map<MemberNumber, std::string> reports_;
};

/// A register in the memory of its process, which is lost with it.
class MemoryRegister final : public Register {
 public:
  /// `position`: View::position before the first view.
  explicit MemoryRegister(std::vector<std::uint64_t> position = {}) { content_.view.position = std::move(position); }
  Result<Registered> read() override { return content_; }
  using Register::commit;
  Written commit(const View& view, const std::string& words) override;
  Result<void> note(const std::string&) override { return {}; }
  const std::vector<std::string>& beside() const override {
    static const std::vector<std::string> kNothing;  // there was none before it was made
    return kNothing;
  }
  Written end(std::uint64_t epoch, JobEnd how) override;
  std::string why() const override { return {}; }

 private:
  Registered content_;
};

/// A register that keeps each content in a file before it says that it is written: a restarted one goes on from there.
/// The file has a line for the job, one for each content and one for each note, with a checksum each. Lines are only
/// added; open() leaves old ones out where they are many. While it is open no other process opens it.
class LogRegister final : public Register {
 public:
  /// Opens the log of `job`, or begins it. Of a damaged file the last whole entry counts, what follows is cut off, and
  /// damage() says so. An Error names the file: bad_input where it is another job's or no log, io where the system
  /// refuses it or another process has it open.
  static Result<std::unique_ptr<LogRegister>> open(const std::string& path, const std::string& job);

  Result<Registered> read() override;
  using Register::commit;
  Written commit(const View& view, const std::string& words) override;
  Result<void> note(const std::string& line) override;
  const std::vector<std::string>& beside() const override { return beside_; }
  Written end(std::uint64_t epoch, JobEnd how) override;
  std::string why() const override { return why_; }
  /// In words, what the file had lost when it was opened; empty: nothing.
  const std::string& damage() const { return damage_; }

 private:
  LogRegister(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> take_over(const std::string& job);
  /// Takes an entry of the file; false: it is none.
  bool take(std::string_view words);
  Written write(Registered next, const std::string& words);
  enum class Stays { on_disk, in_memory };
  int append(const std::string& line, Stays stays = Stays::on_disk);

  const std::string path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;  // of the file, in whole entries
  bool broken_ = false;      // nobody knows what is on the disk
  Registered content_;
  std::vector<std::string> beside_;
  bool notes_are_whole_ = true;  // none of the newest view is missing in the file
  std::string damage_, why_;
};

}  // namespace stretto
