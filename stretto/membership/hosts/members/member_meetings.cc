#include "stretto/membership/hosts/members/member_meetings.h"

namespace stretto {
namespace {

constexpr std::chrono::milliseconds kWaitsForWords{100};

}  // namespace

class MemberMeetings::OfMeeting final : public Bulletin {
 public:
  OfMeeting(MemberMeetings& all, int rank, int ranks, Key key)
      : Bulletin(rank, ranks), all_(all), key_(std::move(key)) {}
  ~OfMeeting() override {
    const std::lock_guard lock(all_.mutex_);
    // A member that makes the meeting anew may have said other words by now.
    std::erase_if(all_.said_, [&](const auto& said) { return said.first == key_ && said.second.words == said_; });
    std::erase_if(all_.told_, [&](const auto& told) { return told.first == key_ && told.second == seen_; });
  }

  Result<void> publish(const std::string& words) override {
    ProcessWords said{.kind = ProcessWords::Kind::publish, .epoch = key_.first, .words = words, .meeting = key_.second};
    const std::lock_guard lock(all_.mutex_);
    said_ = words;
    all_.say_(said);
    all_.said_[key_] = std::move(said);
    return {};
  }
  Result<std::string> look_up() override {
    std::unique_lock lock(all_.mutex_);
    all_.changed_.wait_for(lock, kWaitsForWords, [&] { return all_.told_.contains(key_); });
    const auto found = all_.told_.find(key_);
    if (found != all_.told_.end()) seen_ = found->second;
    return seen_;
  }

 private:
  MemberMeetings& all_;
  const Key key_;
  std::string said_, seen_;
};

std::shared_ptr<Bulletin> MemberMeetings::bulletin(int rank, int ranks, std::uint64_t epoch, const std::string& name) {
  return std::make_shared<OfMeeting>(*this, rank, ranks, Key(name.empty() ? epoch : 0, name));
}

void MemberMeetings::hear(const MasterWords& words) {
  const std::lock_guard lock(mutex_);
  if (words.meeting.empty()) {
    std::erase_if(told_, [&](const auto& other) { return other.first.second.empty(); });
  }
  told_[{words.meeting.empty() ? words.epoch : 0, words.meeting}] = words.words;
  changed_.notify_all();
}

void MemberMeetings::say_again() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, words] : said_) say_(words);
}

}  // namespace stretto
