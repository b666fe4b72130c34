#include "stretto/membership/etcd/candidacy.h"

#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr int kLooksALease = 16;  // how often etcd is asked

std::string key_of_master(const std::string& job) {
  return text("stretto/", job, "/master");
}

}  // namespace

Candidacy::Candidacy(const EtcdAddress& at, std::chrono::seconds lease, Hooks hooks)
    : key_(key_of_master(at.name)),
      length_(lease),
      hooks_(std::move(hooks)),
      etcd_(at.servers),
      thread_([this](const std::stop_token& ended) { stand(ended); }) {}

Candidacy::~Candidacy() = default;

std::optional<std::string> Candidacy::master_in(Etcd& etcd, const std::string& job) {
  const auto found = etcd.read(key_of_master(job));
  if (!found || found->empty() || found->front().bytes.empty()) return std::nullopt;
  return found->front().bytes;
}

void Candidacy::stand(const std::stop_token& ended) {
  while (!ended.stop_requested()) {
    has_office_ ? stay() : look();
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, ended, Duration(length_) / kLooksALease, [] { return false; });
  }
  if (has_office_) leave();
}

void Candidacy::look() {
  if (!stands_) return;
  const auto found = etcd_.read(key_);
  if (found && found->empty() && take()) begin();
}

bool Candidacy::take() {
  const TimePoint asked = clock_.now();
  const auto lease = etcd_.lend(length_);
  if (!lease) return false;
  const auto taken = etcd_.change({.if_as_is = {{.key = key_}}, .puts = {{.key = key_, .lease = *lease}}});
  if (!taken || *taken == 0) {
    etcd_.give_back(*lease);
    return false;
  }
  lease_ = *lease;
  revision_ = *taken;
  ends_ = asked + length_;
  return true;
}

void Candidacy::begin() {
  std::string address;
  try {
    address = hooks_.begin(static_cast<std::uint64_t>(revision_));
  } catch (const Failure& failure) {
    stands_ = false;
    hooks_.tell(text("the job's master cannot be here: ", failure.what()));
    return etcd_.give_back(std::exchange(lease_, 0));
  }
  has_office_ = true;
  const auto told = etcd_.change(
      {.if_as_is = {{.key = key_, .revision = revision_}}, .puts = {{.key = key_, .bytes = address, .lease = lease_}}});
  if (!told || *told == 0) return leave();
  hooks_.holds(ends_);
}

/// Where etcd is away for all this launcher stays in office: no other one can take it meanwhile.
void Candidacy::stay() {
  const TimePoint asked = clock_.now();
  const auto renewed = etcd_.renew(lease_);
  if (!renewed) {
    if (asked < ends_ || std::exchange(is_away_, true)) return;
    return hooks_.tell(
        text(renewed.error().message,
             ": the job goes on, and changes of its members wait, unless another launcher has its master"));
  }
  if (std::exchange(is_away_, false)) hooks_.tell("etcd answers again");
  if (*renewed) {
    ends_ = asked + length_;
    return hooks_.holds(ends_);
  }
  lease_ = 0;
  leave();  // another one may have had it meanwhile, so that this master knows too little
}

void Candidacy::leave() {
  has_office_ = false;
  hooks_.end();
  if (lease_ != 0) etcd_.give_back(std::exchange(lease_, 0));
}

}  // namespace stretto
