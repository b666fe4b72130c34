#include "stretto/membership/masters/shared_master.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "stretto/base/description.h"

namespace stretto {
namespace {

using TermsJson = nlohmann::json;

std::string key_of_terms(const EtcdAddress& at) {
  return text("stretto/", at.name, "/terms");
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

/// By which a launcher with another secret is known: where it had the master, that would refuse all members.
std::uint64_t fingerprint_of(const Token& token) {
  return hash_of(text("secret ", digits_of(token)));
}

/// All options but those that are a launcher's own.
std::string words_of(const JobMaster::Options& options) {
  return TermsJson{{"job", options.job},
                   {"listen", is_loopback(options.listen) ? options.listen : ""},
                   {"program", options.program},
                   {"secret", fingerprint_of(options.token)},
                   {"least", options.least},
                   {"most", options.most},
                   {"first", options.first},
                   {"places", options.places},
                   {"wait", options.wait.count()},
                   {"wait_to_leave", options.wait_to_leave.count()},
                   {"evict", options.evict.count()},
                   {"liveness", options.liveness.count()},
                   {"reads_reports", options.reads_reports}}
      .dump();
}

std::unique_ptr<EtcdRegister> register_of(const JobMaster::Options& options) {
  return EtcdRegister::open(EtcdAddress::parse(options.log).or_throw(), options.job).or_throw();
}

}  // namespace

JobMaster::Options SharedMaster::options_of(const EtcdAddress& at, const Token& token) {
  const auto found = Etcd(at.servers).read(key_of_terms(at)).or_throw();
  if (found.empty()) {
    throw Failure({Errc::unavailable,
                   text("there is no job ", at.to_string(),
                        ": expected one of stretto run --ranks MIN:MAX --listen PORT --register ", at.to_string())});
  }
  try {
    const TermsJson terms = TermsJson::parse(found.front().bytes);
    if (terms.at("secret") != fingerprint_of(token)) {
      throw Failure({Errc::bad_input, text("the job ", at.to_string(), " has another secret than this launcher")});
    }
    return {.token = token,
            .listen = terms.at("listen"),
            .least = terms.at("least"),
            .most = terms.at("most"),
            .first = terms.at("first"),
            .places = terms.at("places"),
            .wait = Duration(terms.at("wait").get<Duration::rep>()),
            .wait_to_leave = Duration(terms.at("wait_to_leave").get<Duration::rep>()),
            .evict = Duration(terms.at("evict").get<Duration::rep>()),
            .program = terms.at("program"),
            .liveness = Duration(terms.at("liveness").get<Duration::rep>()),
            .reads_reports = terms.at("reads_reports"),
            .log = at.to_string(),
            .job = terms.at("job"),
            .is_next = true};
  } catch (const TermsJson::exception& why) {
    throw Failure({Errc::bad_input, text("the options of the job ", at.to_string(), " cannot be read: ", why.what())});
  }
}

SharedMaster::SharedMaster(const JobMaster::Options& options, bool is_first)
    : options_(options), register_(register_of(options)), is_quiet_(is_first) {
  const EtcdAddress at = EtcdAddress::parse(options.log).or_throw();
  if (is_first) {
    Etcd etcd(at.servers);
    options_.is_next = !etcd.read(key_of_terms(at)).or_throw().empty();
    (void)etcd.change({.puts = {{.key = key_of_terms(at), .bytes = words_of(options)}}}).or_throw();
  }
  candidacy_.emplace(at, Candidacy::kShortest,
                     Candidacy::Hooks{.begin = [this](std::uint64_t term) { return begin(term); },
                                      .holds =
                                          [this](TimePoint until) {
                                            const std::lock_guard lock(mutex_);
                                            master_->hold_office(until);
                                          },
                                      .end = [this] { end(); },
                                      .tell = [this](const std::string& line) { tell(line); }});
}

SharedMaster::~SharedMaster() {
  candidacy_.reset();
}

std::string SharedMaster::begin(std::uint64_t term) {
  options_.term = term;
  auto master = std::make_unique<JobMaster>(options_);
  std::string address = master->address().to_string();
  options_.is_next = true;
  if (!std::exchange(is_quiet_, false)) tell(text("the master of the job is here now, at ", address));
  const std::lock_guard lock(mutex_);
  master_ = std::move(master);
  return address;
}

void SharedMaster::end() {
  tell("the master of the job is here no more");
  const std::lock_guard lock(mutex_);
  hear_wishes();
  master_.reset();
}

void SharedMaster::tell(const std::string& line) {
  const std::lock_guard lock(mutex_);
  to_tell_.push_back(line);
}

void SharedMaster::hear_wishes() {
  if (!master_) return;
  const auto kill = [](MemberNumber, JobOfMembers::Fate) {};  // the process that has asked for the number is told
  master_->fulfil_wishes(kill, [this](const std::string& line) { to_tell_.push_back(line); });
}

void SharedMaster::fulfil_wishes(JobOfMembers::Tell tell) {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex_);
    hear_wishes();
    lines.swap(to_tell_);
  }
  for (const std::string& line : lines) tell(line);
}

std::size_t SharedMaster::visitors() {
  const std::lock_guard lock(mutex_);
  return master_ ? master_->visitors() : 0;
}

JobEnd SharedMaster::end_of_job() {
  const auto content = register_->read();
  return content ? content->end : JobEnd::none;
}

}  // namespace stretto
