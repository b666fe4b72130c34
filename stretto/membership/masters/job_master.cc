#include "stretto/membership/masters/job_master.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "stretto/membership/etcd/etcd_register.h"
#include "stretto/membership/hosts/interfaces.h"
#include "stretto/membership/hosts/members/master_server.h"

namespace stretto {
namespace {

constexpr Duration kForAllToCome = std::chrono::seconds(10);         // after the last one that has
constexpr Duration kForMoreToCome = std::chrono::milliseconds(200);  // the same, once the job is under way
constexpr Duration kForNextMaster = std::chrono::seconds(30);        // another launcher's, which is there already

asio::ip::address address_to_listen_at(const std::string& host) {
  if (host.empty()) return first_reachable_address();
  asio::error_code error;
  auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (!error) return address;
  const auto own = addresses_of_interfaces({});
  std::string there;
  for (const auto& one : own ? *own : std::vector<asio::ip::address>()) there += one.to_string() + ", ";
  throw UsageError(text("'", host, "' is no address: expected one of this host's, which are ", there, "127.0.0.1"));
}

/// How long another master may come.
Duration patience_of(const JobMaster::Options& options) {
  if (options.log.empty()) return Duration(0);
  return EtcdAddress::is_meant_by(options.log) ? std::max(options.wait, kForNextMaster) : options.wait;
}

/// `tell` is told what a file has lost.
std::unique_ptr<Register> kept_register(const std::string& log, const std::string& job,
                                        FunctionRef<void(const std::string&)> tell, std::uint64_t term = 0) {
  if (EtcdAddress::is_meant_by(log)) {
    return EtcdRegister::open(EtcdAddress::parse(log).or_throw(), job, term).or_throw();
  }
  auto file = LogRegister::open(log, job).or_throw();
  if (!file->damage().empty()) tell(file->damage());
  return file;
}

}  // namespace

class JobMaster::Impl {
 public:
  explicit Impl(const Options& options)
      : token_(options.token),
        places_(std::max(options.places, options.most)),
        door_(network_, {.address = address_to_listen_at(options.listen),
                         .first_port = options.port,
                         .last_port = options.port,
                         .token = options.token}),
        address_(door_.endpoint().address().is_unspecified() ? first_reachable_address(door_.endpoint().address())
                                                             : door_.endpoint().address()),
        views_(register_of(options)),
        server_(network_, door_, *views_,
                {.master = {.least = static_cast<std::size_t>(options.least),
                            .most = static_cast<std::size_t>(options.most),
                            .wait = options.wait,
                            .wait_to_leave = options.wait_to_leave,
                            .gather = kForAllToCome,
                            .first = static_cast<std::size_t>(options.first > 0 ? options.first : options.most),
                            .gather_more = kForMoreToCome,
                            .evict = options.evict},
                 .places = places_,
                 .given = options.given,
                 .is_next = options.is_next,
                 .program = options.program,
                 .liveness = options.liveness,
                 .reads_reports = options.reads_reports,
                 .has_hosts = !door_.endpoint().address().is_loopback(),
                 .patience = patience_of(options)},
                {.kill = [this](MemberNumber number) { wish({.kill = number}); },
                 .not_come = [this](MemberNumber number) { wish({.kill = number, .fate = Fate::not_come}); },
                 .tell = [this](const std::string& line) { wish({.tell = line}); }}) {}

  std::unique_ptr<Register> register_of(const Options& options) {
    if (options.log.empty()) return std::make_unique<MemoryRegister>(options.position);
    const auto tell = [this](const std::string& damage) { wish({.tell = damage}); };
    return kept_register(options.log, options.job, tell, options.term);
  }
  JobAddress address() const { return {.host = address_.to_string(), .port = door_.endpoint().port()}; }
  MasterServer& server() { return server_; }
  MemberPlace give_place(std::optional<int> wish) {
    const auto given = server_.give_place(wish);
    if (!given) throw Failure({Errc::unavailable, text("all of the ", places_, " places of the job are taken")});
    const JobAddress at = address();
    return {.host = at.host,
            .port = at.port,
            .number = given->number,
            .place = given->place,
            .most = places_,
            .token = token_};
  }
  void fulfil_wishes(Kill kill, Tell tell) {
    std::vector<Wish> wishes;
    {
      const std::lock_guard lock(mutex_);
      wishes.swap(wishes_);
    }
    for (const Wish& wish : wishes) {
      if (wish.kill) kill(*wish.kill, wish.fate);
      if (!wish.tell.empty()) tell(wish.tell);
    }
  }

 private:
  struct Wish {
    std::optional<MemberNumber> kill = {};
    Fate fate = Fate::excluded;  // of that
    std::string tell = {};
  };

  void wish(Wish wish) {
    const std::lock_guard lock(mutex_);
    wishes_.push_back(std::move(wish));
  }

  const Token token_;
  const int places_;
  std::mutex mutex_;
  std::vector<Wish> wishes_;
  NetworkThread network_;
  Door door_;
  const asio::ip::address address_;  // by which others come
  const std::unique_ptr<Register> views_;
  MasterServer server_;  // uses what is above
};

Registered JobMaster::left_in(const std::string& log, const std::string& job,
                              FunctionRef<void(const std::string& damage)> tell) {
  return kept_register(log, job, tell)->read().or_throw();
}

JobMaster::JobMaster(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

JobMaster::~JobMaster() = default;

JobAddress JobMaster::address() const {
  return impl_->address();
}

MemberPlace JobMaster::give_place(std::optional<int> wish) {
  return impl_->give_place(wish);
}

void JobMaster::lose(MemberNumber number) {
  impl_->server().lose(number);
}

Registered JobMaster::known() {
  return impl_->server().known();
}

void JobMaster::send_away(MemberNumber number) {
  impl_->server().send_away(number);
}

void JobMaster::fulfil_wishes(Kill kill, Tell tell) {
  impl_->fulfil_wishes(kill, tell);
}

Result<std::map<MemberNumber, std::string>> JobMaster::reports() {
  return impl_->server().reports();
}

std::size_t JobMaster::visitors() {
  return impl_->server().visitors();
}

void JobMaster::hold_office(TimePoint until) {
  impl_->server().hold_office(until);
}

}  // namespace stretto
