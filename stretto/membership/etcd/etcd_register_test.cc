#include "stretto/membership/etcd/etcd_register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/membership/etcd/testing/etcd_server.h"
#include "stretto/membership/views/testing/register_conformance.h"

namespace stretto {
namespace {

using Lines = std::vector<std::string>;
using testing::HasSubstr;

TEST(EtcdAddress, IsReadAsItIsWritten) {
  for (const char* words : {"etcd://127.0.0.1:2379/train", "etcd://a:1,b.c:65535,[fd77::1]:2379/my-run_2.1"}) {
    EXPECT_EQ(EtcdAddress::parse(words).value().to_string(), words);
  }
  EXPECT_EQ(EtcdAddress::parse("etcd://a:1,b:2/c").value().servers, (Lines{"a:1", "b:2"}));
  for (const char* words :
       {"", "file", "etcd://", "etcd://a:1", "etcd://a:1/", "etcd:///name", "etcd://a/name", "etcd://a:0/name",
        "etcd://a:65536/name", "etcd://:1/name", "etcd://a:1,/name", "etcd://a:1/two/names", "etcd://a:1/ü"}) {
    EXPECT_FALSE(EtcdAddress::parse(words)) << words;
  }
  EXPECT_THAT(EtcdAddress::parse("etcd://me:secret@a:1/name").error().message, HasSubstr("no option for a password"));
}

class EtcdRegisterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::is_there()) GTEST_SKIP() << "there is no etcd";
    server_.emplace();
  }
  std::unique_ptr<EtcdRegister> opened(const std::string& name = "a", const std::string& job = "vowels") const {
    return EtcdRegister::open(server_->address(name), job).or_throw();
  }

  std::optional<EtcdServer> server_;
};

TEST_F(EtcdRegisterTest, Conforms) {
  int registers = 0;
  expect_register({"etcd", [&] { return opened(text("conformance-", ++registers)); }});
}

TEST_F(EtcdRegisterTest, IsOneCellForAllThatOpenIt) {
  const auto one = opened(), other = opened();
  const View first = view_after({}), second = view_after(first);
  EXPECT_EQ(one->commit(first), Written::done);
  EXPECT_EQ(other->commit(first), Written::refused);
  EXPECT_EQ(other->read().value().view, first);
  EXPECT_EQ(other->commit(second), Written::done);
  EXPECT_EQ(one->commit(second), Written::refused);
  EXPECT_EQ(one->end(first.epoch, JobEnd::given_up), Written::refused);
  EXPECT_EQ(one->read().value(), (Registered{second, JobEnd::none}));
  EXPECT_EQ(one->end(second.epoch, JobEnd::done), Written::done);
  EXPECT_EQ(opened()->read().value(), (Registered{second, JobEnd::done}));
  EXPECT_EQ(opened("another")->read().value(), Registered());
}

TEST_F(EtcdRegisterTest, TakesOneViewAnEpochOfSeveralMasters) {
  constexpr int kMasters = 4;
  constexpr std::uint64_t kEpochs = 25;
  std::atomic<int> done = 0, unknown = 0;  // where etcd is slow
  std::vector<std::jthread> masters;
  for (int master = 0; master < kMasters; ++master) {
    masters.emplace_back([&, master] {
      const auto cell = opened();
      for (auto content = cell->read(); !content || content->view.epoch < kEpochs; content = cell->read()) {
        if (!content) continue;
        View mine = view_after(content->view);
        mine.terms["by"] = text(master);
        const Written written = cell->commit(mine);
        done += written == Written::done;
        unknown += written == Written::unknown;
      }
    });
  }
  masters.clear();
  EXPECT_LE(done, kEpochs);
  EXPECT_GE(done + unknown, kEpochs);
}

TEST_F(EtcdRegisterTest, KeepsWhatStandsBesideTheNewestViewAlone) {
  const View first = view_after({}), second = view_after(first);
  const auto cell = opened();
  EXPECT_TRUE(cell->note("before the first view"));
  EXPECT_EQ(opened()->beside(), Lines{"before the first view"});
  ASSERT_EQ(cell->commit(first, "a pool"), Written::done);
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(cell->note(text("note ", i)));
  const auto other = opened();
  ASSERT_EQ(other->beside().size(), 13u);
  EXPECT_EQ(other->beside().front(), "a pool");
  EXPECT_EQ(other->beside().back(), "note 11");
  ASSERT_TRUE(other->note("of the other"));
  EXPECT_EQ(cell->note("which does not know it").error().code, Errc::excluded);
  ASSERT_TRUE(cell->read());
  EXPECT_EQ(cell->beside().back(), "of the other");
  EXPECT_TRUE(cell->note("which does"));
  ASSERT_TRUE(other->read());
  EXPECT_EQ(other->commit(second), Written::done);
  EXPECT_EQ(opened()->beside(), Lines());
  EXPECT_EQ(cell->note("beside a view that is over").error().code, Errc::excluded);
}

TEST_F(EtcdRegisterTest, KeepsReportsThatAreLargerThanARequest) {
  const View first = view_after({});
  const auto cell = opened();
  ASSERT_EQ(cell->commit(first), Written::done);
  ASSERT_TRUE(cell->note("one"));
  Random random(1);
  const auto drawn = [&random](std::size_t bytes) {
    std::string report(bytes, ' ');
    for (char& byte : report) byte = static_cast<char>(random.below(256));
    return report;
  };
  const std::size_t part = EtcdRegister::kReportPart;
  std::map<MemberNumber, std::string> all{{1, drawn(4 * part + 3)}, {11, drawn(part)}, {12, drawn(part + 1)}};
  for (const auto& [number, report] : all) ASSERT_TRUE(cell->keep_report(number, report));
  EXPECT_EQ(opened()->reports().value(), all);
  EXPECT_EQ(opened()->beside(), Lines{"one"});
  ASSERT_TRUE(cell->keep_report(1, all[1] = "a shorter one"));
  EXPECT_EQ(cell->reports().value(), all);
}

TEST_F(EtcdRegisterTest, RefusesAnotherJob) {
  ASSERT_EQ(opened("a", "vowels")->commit(view_after({})), Written::done);
  const auto other = EtcdRegister::open(server_->address("a"), "another job");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::bad_input);
  EXPECT_THAT(other.error().message,
              testing::AllOf(HasSubstr("'vowels'"), HasSubstr("'another job'"), HasSubstr("/a")));
}

TEST_F(EtcdRegisterTest, DoesNotKnowWhatBecameOfAWriteWithoutAnAnswer) {
  const auto cell = opened();
  const View first = view_after({}), second = view_after(first);
  ASSERT_EQ(cell->commit(first), Written::done);
  server_->signal(SIGSTOP);
  EXPECT_EQ(cell->commit(second), Written::unknown);
  EXPECT_THAT(cell->why(), HasSubstr(server_->server()));
  EXPECT_FALSE(cell->read());
  EXPECT_EQ(cell->note("one").error().code, Errc::io);
  server_->signal(SIGCONT);
  const SteadyClock clock;
  Result<Registered> content = cell->read();
  for (const TimePoint by = clock.now() + std::chrono::seconds(60); !content && clock.now() < by;)
    content = cell->read();
  ASSERT_TRUE(content);
  EXPECT_TRUE(content->view == first || content->view == second) << "etcd may have heard it";
  for (const TimePoint by = clock.now() + std::chrono::seconds(60);
       clock.now() < by;) {  // and may hear of the note yet
    content = cell->read();
    if (content && cell->commit(view_after(content->view)) == Written::done) return;
  }
  ADD_FAILURE() << "nothing can be written";
}

TEST_F(EtcdRegisterTest, GoesOnWhereEtcdIsStartedAgain) {
  const auto cell = opened();
  ASSERT_EQ(cell->commit(view_after({}), "a pool"), Written::done);
  ASSERT_TRUE(cell->note("one"));
  server_->end();
  EXPECT_FALSE(cell->read());
  EXPECT_EQ(EtcdRegister::open(server_->address("a"), "vowels").error().code, Errc::lost_peer);
  server_->start();
  EXPECT_TRUE(cell->note("two")) << "nothing was written meanwhile";
  EXPECT_EQ(opened()->beside(), (Lines{"a pool", "one", "two"}));
}

TEST_F(EtcdRegisterTest, TakesNoViewOfAMasterThatDoesNotKnowAllNotes) {
  const View first = view_after({}), second = view_after(first);
  const auto one = opened();
  ASSERT_EQ(one->commit(first), Written::done);
  const auto other = opened();
  ASSERT_TRUE(other->note("of the other"));
  EXPECT_EQ(one->commit(second), Written::refused);
  EXPECT_EQ(opened()->beside(), Lines{"of the other"});
  ASSERT_TRUE(one->read());
  EXPECT_EQ(one->commit(second), Written::done);
}

}  // namespace
}  // namespace stretto
