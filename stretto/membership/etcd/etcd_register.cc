#include "stretto/membership/etcd/etcd_register.h"

#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

namespace stretto {
namespace {

/// A key that comes behind those of smaller numbers.
std::string numbered(const std::string& begins, std::uint64_t number) {
  constexpr int kDigits = 12;
  std::ostringstream key;
  key << begins << std::setfill('0') << std::setw(kDigits) << number;
  return key.str();
}

}  // namespace

Result<std::unique_ptr<EtcdRegister>> EtcdRegister::open(const EtcdAddress& at, const std::string& job,
                                                         std::uint64_t term) {
  std::unique_ptr<EtcdRegister> opened(new EtcdRegister(at, term));
  if (const auto taken = opened->take_over(job); !taken) {
    return Error{taken.error().code, text("the register ", at.to_string(), ": ", taken.error().message)};
  }
  return opened;
}

Result<void> EtcdRegister::take_over(const std::string& job) {
  const auto begun = etcd_.change({.if_as_is = {{.key = job_}}, .puts = {{.key = job_, .bytes = job}}});
  if (!begun) return begun.error();
  const auto found = etcd_.read(job_);
  if (!found) return found.error();
  if (found->empty() || found->front().bytes != job) {
    const std::string other = found->empty() ? "" : found->front().bytes;
    return Error{Errc::bad_input, text("it is of job '", other, "', and not of '", job, "': choose another name")};
  }
  if (const auto content = read(); !content) return content.error();
  return {};
}

/// With the notes, in one answer: they go with their view.
Result<Registered> EtcdRegister::read() {
  const auto all = etcd_.read_range(all_, words_);
  if (!all) return all.error();
  std::vector<std::string> notes;
  for (const Etcd::Value& one : *all) {
    if (one.key.starts_with(notes_)) notes.push_back(one.bytes);
    if (one.key != view_) continue;
    auto entry = RegisterEntry::decoded(one.bytes);
    if (!entry) return entry.error();
    newest_ = *std::move(entry);
    revision_ = one.revision;
  }
  num_notes_ = notes.size();
  notes_are_whole_ = true;
  beside_ = std::move(notes);
  if (!newest_.words.empty()) beside_.insert(beside_.begin(), newest_.words);
  return newest_.content;
}

Written EtcdRegister::commit(const View& view, const std::string& words) {
  if (!may_follow(newest_.content, view)) return Written::refused;
  return write({view, JobEnd::none}, words);
}

Written EtcdRegister::end(std::uint64_t epoch, JobEnd how) {
  if (!may_end(newest_.content, epoch)) return Written::refused;
  return write({newest_.content.view, how}, {});
}

/// A report counts from its last key on. A process that reports again, to another master, reports the same.
Result<void> EtcdRegister::keep_report(MemberNumber number, const std::string& report) {
  const std::string words = text(words_, number, '/');
  std::uint64_t parts = 0;
  for (std::size_t at = 0; at < report.size(); at += kReportPart, ++parts) {
    const auto put = etcd_.change({.puts = {{.key = numbered(words, parts), .bytes = report.substr(at, kReportPart)}}});
    if (!put) return put.error();
  }
  const auto whole = etcd_.change({.puts = {{.key = text(written_, number), .bytes = text(parts)}}});
  if (!whole) return whole.error();
  return {};
}

/// Part by part, since an answer has to come within the patience of one.
Result<std::map<MemberNumber, std::string>> EtcdRegister::reports() {
  const auto written = etcd_.read(written_);
  if (!written) return written.error();
  std::map<MemberNumber, std::string> reports;
  for (const Etcd::Value& one : *written) {
    const std::string number = one.key.substr(written_.size());
    std::string& report = reports[std::stoull(number)];
    for (std::uint64_t part = 0; part < std::stoull(one.bytes); ++part) {
      const auto words = etcd_.read(numbered(text(words_, number, '/'), part));
      if (!words) return words.error();
      if (words->empty()) {
        return Error{Errc::bad_input, text("part ", part, " of what member ", number, " has reported is missing")};
      }
      report += words->front().bytes;
    }
  }
  return reports;
}

Written EtcdRegister::write(Registered next, const std::string& words) {
  RegisterEntry entry{.content = std::move(next), .words = words};
  const auto written = etcd_.change({.if_as_is = {{.key = view_, .revision = revision_},
                                                  {.key = numbered(notes_, num_notes_)}},  // it knows all notes
                                     .puts = {{.key = view_, .bytes = entry.encoded()}},
                                     .forgets = {notes_}});
  if (!written) {
    why_ = written.error().message;
    return Written::unknown;
  }
  if (*written == 0) return Written::refused;
  newest_ = std::move(entry);
  revision_ = *written;
  num_notes_ = 0;
  notes_are_whole_ = true;
  return Written::done;
}

/// After a note that is missing none may follow: the next view stands for all of them.
Result<void> EtcdRegister::note(const std::string& line) {
  if (!notes_are_whole_) return Error{Errc::io, why_};
  const std::string key = numbered(notes_, num_notes_);
  const auto written = etcd_.change(
      {.if_as_is = {{.key = view_, .revision = revision_}, {.key = key}}, .puts = {{.key = key, .bytes = line}}});
  if (written && *written != 0) {
    ++num_notes_;
    return {};
  }
  notes_are_whole_ = false;
  why_ = written ? "another master of the job has written to the register" : written.error().message;
  return Error{written ? Errc::excluded : Errc::io, why_};
}

}  // namespace stretto
