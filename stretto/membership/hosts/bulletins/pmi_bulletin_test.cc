#include "stretto/membership/hosts/bulletins/pmi_bulletin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "stretto/base/descriptor.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

using testing::HasSubstr;

/// A process manager of two ranks, which answers what has been asked when it is told to.
class Manager {
 public:
  explicit Manager(int value_bytes = 1024) : value_bytes_(value_bytes) {
    for (Rank& rank : ranks_) {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
      rank.theirs = Descriptor(pair[0]);
      rank.ours = Descriptor(pair[1]);
    }
  }
  int descriptor(int rank) const { return ranks_[rank].theirs.get(); }

  /// Says, in order, what `rank` has not read yet, whatever it asks: what a manager answers is known beforehand.
  void say(int rank, const std::string& lines) const {
    EXPECT_EQ(::write(ranks_[rank].ours.get(), lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  }
  void begin(int rank) const {
    say(rank, text("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
                   "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=",
                   value_bytes_, " rc=0\ncmd=my_kvsname kvsname=kvs_7_0 rc=0\n"));
  }
  /// The lines that `rank` has asked so far.
  std::vector<std::string> asked(int rank) const {
    char bytes[4096];
    const ssize_t got = ::recv(ranks_[rank].ours.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    std::vector<std::string> out;
    for (std::string rest(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0))); !rest.empty();) {
      out.push_back(rest.substr(0, rest.find('\n')));
      rest.erase(0, out.back().size() + 1);
    }
    return out;
  }
  void leave(int rank) { ranks_[rank].ours.close(); }

 private:
  struct Rank {
    Descriptor theirs, ours;
  };
  Rank ranks_[2];
  const int value_bytes_;
};

const std::string kWords = "10.77.0.1:43211/00112233445566778899aabbccddeeff";

TEST(PmiBulletin, Rank0LeavesItsWordsAndDoesNotWaitForTheOthers) {
  const Manager manager;
  manager.begin(0);
  manager.say(0, "cmd=put_result rc=0 msg=success\n");
  {
    PmiBulletin bulletin(0, 2, manager.descriptor(0));
    bulletin.publish(kWords).or_throw();
    EXPECT_THAT(manager.asked(0),
                testing::ElementsAre("cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_maxes", "cmd=get_my_kvsname",
                                     "cmd=put kvsname=kvs_7_0 key=stretto-meeting value=" + kWords, "cmd=barrier_in"));
    manager.say(0, "cmd=barrier_out rc=0\n");
    bulletin.end();
    manager.say(0, "cmd=response_to_init rc=0\n");  // to an MPI
  }
  char next = 0;
  EXPECT_EQ(recv(manager.descriptor(0), &next, 1, MSG_DONTWAIT), 1) << "read by the bulletin";
  EXPECT_THAT(manager.asked(0), testing::IsEmpty()) << "until the process ends";
}

TEST(PmiBulletin, TheOthersFindThemBehindTheBarrier) {
  const Manager manager;
  manager.begin(1);
  {
    PmiBulletin bulletin(1, 2, manager.descriptor(1));
    EXPECT_EQ(bulletin.look_up().or_throw(), "") << "rank 0 has not come";
    EXPECT_EQ(bulletin.look_up().or_throw(), "");
    EXPECT_EQ(manager.asked(1).back(), "cmd=barrier_in") << "once";
    manager.say(1, "cmd=barrier_");
    EXPECT_EQ(bulletin.look_up().or_throw(), "");
    manager.say(1, "out rc=0\ncmd=get_result rc=0 msg=success value=" + kWords + "\n");
    EXPECT_EQ(bulletin.look_up().or_throw(), kWords);
    EXPECT_EQ(bulletin.look_up().or_throw(), kWords) << "an older meeting's: asked once more";
    EXPECT_THAT(manager.asked(1), testing::ElementsAre("cmd=get kvsname=kvs_7_0 key=stretto-meeting"));
  }
  EXPECT_THAT(manager.asked(1), testing::IsEmpty());
}

/// With which error rank 1 ends when the manager says this.
Error error_after(const std::string& said) {
  const Manager manager;
  manager.say(1, said);
  return PmiBulletin(1, 2, manager.descriptor(1)).look_up().error();
}

TEST(PmiBulletin, WhatGoesWrongIsSaid) {
  const Error silent = error_after("");
  EXPECT_EQ(silent.code, Errc::unavailable);
  EXPECT_THAT(silent.message, HasSubstr("it does not answer 'cmd=init pmi_version=1 pmi_subversion=1'"));
  for (const char* said : {"cmd=response_to_init pmi_version=1 rc=-1\n", "cmd=maxes rc=0\n", "garbage\n", "\n"}) {
    const Error error = error_after(said);
    EXPECT_EQ(error.code, Errc::io) << said;
    EXPECT_THAT(error.message, HasSubstr(text("it answers '", std::string(said).substr(0, std::string(said).size() - 1),
                                              "' to 'cmd=init")));
  }
  EXPECT_THAT(error_after(std::string(5000, 'x')).message, HasSubstr("its answer has no end"));
}

TEST(PmiBulletin, ManagersThatKeepShortValuesOrAreGone) {
  const Manager brief(32);
  brief.begin(0);
  EXPECT_THAT(PmiBulletin(0, 2, brief.descriptor(0)).publish(kWords).error().message,
              HasSubstr(text("it keeps values of 32 bytes, and rank 0's address has ", kWords.size())));
  Manager gone;
  gone.leave(1);
  EXPECT_EQ(PmiBulletin(1, 2, gone.descriptor(1)).look_up().error().code, Errc::io);
}

}  // namespace
}  // namespace stretto
