#include "stretto/membership/job_master.h"

#include <mutex>
#include <optional>
#include <utility>

#include "stretto/membership/hosts/master_server.h"

namespace stretto {
namespace {

constexpr Duration kForAllToCome = std::chrono::seconds(10);         // after the last one that has
constexpr Duration kForMoreToCome = std::chrono::milliseconds(200);  // the same, once the job is under way
constexpr Duration kToEndByItself = std::chrono::seconds(5);         // a member without which the others go on

}  // namespace

class JobMaster::Impl {
 public:
  explicit Impl(const Options& options)
      : door_(network_, {.address = asio::ip::address_v4::loopback(), .token = options.token}),
        views_(options.position),
        server_(network_, door_, views_,
                {.least = static_cast<std::size_t>(options.least),
                 .most = static_cast<std::size_t>(options.most),
                 .wait = options.wait,
                 .wait_to_leave = options.wait_to_leave,
                 .gather = kForAllToCome,
                 .gather_more = kForMoreToCome},
                {.kill = [this](MemberNumber number) { wish({.kill = number}); },
                 .tell = [this](const std::string& line) { wish({.tell = line}); }}) {}

  std::uint16_t port() const { return door_.endpoint().port(); }
  MasterServer& server() { return server_; }
  void fulfil_wishes(JobProcesses& processes, FunctionRef<void(const std::string&)> tell) {
    std::vector<Wish> wishes;
    {
      const std::lock_guard lock(mutex_);
      wishes.swap(wishes_);
    }
    for (const Wish& wish : wishes) {
      if (wish.kill && std::in_range<int>(*wish.kill)) {
        processes.kill_within(static_cast<int>(*wish.kill), kToEndByItself);
      }
      if (!wish.tell.empty()) tell(wish.tell);
    }
  }

 private:
  struct Wish {
    std::optional<MemberNumber> kill = {};
    std::string tell = {};
  };

  void wish(Wish wish) {
    const std::lock_guard lock(mutex_);
    wishes_.push_back(std::move(wish));
  }

  std::mutex mutex_;
  std::vector<Wish> wishes_;
  NetworkThread network_;
  Door door_;
  MemoryRegister views_;
  MasterServer server_;  // uses what is above
};

JobMaster::JobMaster(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

JobMaster::~JobMaster() = default;

std::uint16_t JobMaster::port() const {
  return impl_->port();
}

void JobMaster::lose(MemberNumber number) {
  impl_->server().lose(number);
}

Registered JobMaster::known() {
  return impl_->server().known();
}

void JobMaster::fulfil_wishes(JobProcesses& processes, FunctionRef<void(const std::string&)> tell) {
  impl_->fulfil_wishes(processes, tell);
}

}  // namespace stretto
