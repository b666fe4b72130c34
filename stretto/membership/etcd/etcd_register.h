#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stretto/membership/etcd/etcd.h"
#include "stretto/membership/views/register.h"

namespace stretto {

/// A register in etcd: masters on any host go on from it, several at a time, and it stays where all of them are lost.
/// Each write is one transaction, on the revision of the content that this object knows.
///
/// Keys begin with stretto/NAME/: `job`, one for each note, which goes with its view, and `view`. Those of reports come
/// behind all of these, and no master reads them: `words/MEMBER/…`, one for each part of kReportPart, since etcd
/// refuses requests above 1.5 MiB unless it is told otherwise (--max-request-bytes); and `written/MEMBER`, last, how
/// many parts there are.
class EtcdRegister final : public Register {
 public:
  static constexpr std::size_t kReportPart = std::size_t{1} << 20;  ///< bytes

  /// Opens the register of `job`, or begins it. Errc::bad_input: it is another job's; others as Etcd.
  static Result<std::unique_ptr<EtcdRegister>> open(const EtcdAddress& at, const std::string& job,
                                                    std::uint64_t term = 0);

  Result<Registered> read() override;
  using Register::commit;
  Written commit(const View& view, const std::string& words) override;
  /// Errc::excluded: another master has written a view or a note since.
  Result<void> note(const std::string& line) override;
  const std::vector<std::string>& beside() const override { return beside_; }
  Written end(std::uint64_t epoch, JobEnd how) override;
  Result<void> keep_report(MemberNumber number, const std::string& report) override;
  Result<std::map<MemberNumber, std::string>> reports() override;
  std::string why() const override { return why_; }
  bool is_shared() const override { return true; }
  std::uint64_t term() const override { return term_; }

 private:
  EtcdRegister(const EtcdAddress& at, std::uint64_t term)
      : term_(term),
        etcd_(at.servers, kRests),
        all_(text("stretto/", at.name, '/')),
        job_(all_ + "job"),
        view_(all_ + "view"),
        notes_(all_ + "note/"),
        words_(all_ + "words/"),
        written_(all_ + "written/") {}
  static constexpr Duration kRests = std::chrono::seconds(1);  // a master hands out batches meanwhile

  Result<void> take_over(const std::string& job);
  Written write(Registered next, const std::string& words);

  const std::uint64_t term_;
  Etcd etcd_;
  const std::string all_, job_, view_, notes_, words_, written_;  // keys, and how they begin
  RegisterEntry newest_;
  Etcd::Revision revision_ = 0;  // of that
  std::uint64_t num_notes_ = 0;  // beside it
  bool notes_are_whole_ = true;  // none of the newest view is missing
  std::vector<std::string> beside_;
  std::string why_;
};

}  // namespace stretto
