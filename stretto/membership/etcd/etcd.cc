#include "stretto/membership/etcd/etcd.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using EtcdJson = nlohmann::json;

constexpr Duration kPatience = std::chrono::milliseconds(500);  // for one server
constexpr std::string_view kScheme = "etcd://";
constexpr int kFound = 200;

std::string in_base64(std::string_view bytes) {
  return base64(std::as_bytes(std::span(bytes)));
}

/// The bound of all keys that begin with `begins`: the first that does not, in their order.
std::string behind(std::string_view begins) {
  std::string end(begins);
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

/// The gateway writes numbers of 64 bits as strings, and leaves zeros out.
std::int64_t number_in(const EtcdJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  return found->is_string() ? std::atoll(found->get_ref<const std::string&>().c_str()) : found->get<std::int64_t>();
}

EtcdJson range_of(std::string_view begins) {
  return {{"key", in_base64(begins)}, {"range_end", in_base64(behind(begins))}};
}

/// An answer that is none of etcd's: something else listens there.
Error not_understood(const std::exception& why) {
  return {Errc::unavailable, text("what answers is no etcd of 3.4 or newer: ", why.what())};
}

}  // namespace

Result<EtcdAddress> EtcdAddress::parse(std::string_view words) {
  const Error unfit{Errc::bad_input,
                    text("'", words,
                         "' is no register in etcd; expected etcd://HOST:PORT[,HOST:PORT…]/NAME, as in "
                         "etcd://10.0.0.1:2379/train")};
  if (!is_meant_by(words)) return unfit;
  const std::string_view rest = words.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return unfit;
  EtcdAddress address{.servers = {}, .name = std::string(rest.substr(slash + 1))};
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '.';
  };
  if (address.name.empty() || !std::ranges::all_of(address.name, is_plain)) return unfit;
  if (rest.substr(0, slash).find('@') != std::string_view::npos) {
    return Error{Errc::bad_input, text("'", words, "' names a user: Stretto has no option for a password of etcd")};
  }
  std::istringstream servers{std::string(rest.substr(0, slash))};
  for (std::string server; std::getline(servers, server, ',');) {
    const std::size_t colon = server.rfind(':');
    if (colon == std::string::npos || colon == 0) return unfit;
    const std::string port = server.substr(colon + 1);
    const bool is_port = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    if (!is_port || std::atoi(port.c_str()) < 1 || std::atoi(port.c_str()) > 65535) return unfit;
    address.servers.push_back(server);
  }
  if (address.servers.empty() || rest[slash - 1] == ',') return unfit;
  return address;
}

std::string EtcdAddress::to_string() const {
  const std::string words(kScheme);
  return words + join(servers, ",") + '/' + name;
}

/// Asks one server after the other, but not another one for a change that one may have made.
Result<std::string> Etcd::ask(const char* what, const std::string& words, bool changes) {
  if (silence_ && clock_.now() < silent_until_) return *silence_;
  Error last{Errc::lost_peer, ""};
  bool has_waited = false;
  const std::size_t most = silence_ && rests_ > Duration::zero() ? 1 : servers_.size();
  for (std::size_t tried = 0; tried < most; ++tried, at_ = (at_ + 1) % servers_.size()) {
    const std::string& server = servers_[at_];
    auto answer = web_.post(text("http://", server, "/v3/", what), words, kPatience);
    if (answer && answer->status == kFound) {
      silence_.reset();
      return std::move(answer->body);
    }
    if (!answer) {
      last = {answer.error().code, text("etcd at ", server, " does not answer: ", answer.error().message)};
    } else {
      const auto json = EtcdJson::parse(answer->body, nullptr, false);
      const std::string why = json.is_object() ? json.value("error", answer->body) : answer->body;
      last = {Errc::unavailable, text("etcd at ", server, " refuses (", answer->status, "): ", why)};
      if (why.find("user name is empty") != std::string::npos || why.find("auth token") != std::string::npos) {
        last.message += "; it wants a password, for which Stretto has no option";
      }
      // A server without a majority says so when it has waited for one.
      if (answer->status >= 500) last.code = Errc::timeout;
    }
    has_waited |= last.code == Errc::timeout;
    if (changes && last.code == Errc::timeout) {
      at_ = (at_ + 1) % servers_.size();
      break;
    }
  }
  if (has_waited) {
    silence_ = Error{Errc::lost_peer, last.message};  // what is asked while it rests has not been done
    silent_until_ = clock_.now() + rests_;
  }
  return last;
}

Result<std::vector<Etcd::Value>> Etcd::read(std::string_view begins) {
  return read_range(begins, behind(begins));
}

Result<std::vector<Etcd::Value>> Etcd::read_range(std::string_view first, std::string_view end) {
  const EtcdJson range = {{"key", in_base64(first)}, {"range_end", in_base64(end)}};
  const auto answer = ask("kv/range", range.dump(), false);
  if (!answer) return answer.error();
  try {
    std::vector<Value> values;
    const EtcdJson json = EtcdJson::parse(*answer);
    (void)json.at("header").at("cluster_id");
    for (const EtcdJson& one : json.value("kvs", EtcdJson::array())) {
      values.push_back({.key = bytes_of_base64(one.at("key").get<std::string>()),
                        .bytes = bytes_of_base64(one.value("value", "")),
                        .revision = number_in(one, "mod_revision")});
    }
    std::ranges::sort(values, {}, &Value::key);
    return values;
  } catch (const EtcdJson::exception& why) {
    return not_understood(why);
  }
}

Result<Etcd::Revision> Etcd::change(const Change& change) {
  EtcdJson words = {{"compare", EtcdJson::array()}, {"success", EtcdJson::array()}};
  for (const Value& known : change.if_as_is) {
    words["compare"].push_back({{"key", in_base64(known.key)},
                                {"target", "MOD"},
                                {"result", "EQUAL"},
                                {"mod_revision", std::to_string(known.revision)}});
  }
  for (const std::string& begins : change.forgets) {
    words["success"].push_back({{"request_delete_range", range_of(begins)}});
  }
  for (const Value& put : change.puts) {
    words["success"].push_back(
        {{"request_put",
          {{"key", in_base64(put.key)}, {"value", in_base64(put.bytes)}, {"lease", std::to_string(put.lease)}}}});
  }
  const auto answer = ask("kv/txn", words.dump(), true);
  if (!answer) return answer.error();
  try {
    const EtcdJson json = EtcdJson::parse(*answer);
    const Revision revision = number_in(json.at("header"), "revision");
    return json.value("succeeded", false) ? revision : Revision{0};
  } catch (const EtcdJson::exception& why) {
    return not_understood(why);
  }
}

Result<Etcd::Lease> Etcd::lend(std::chrono::seconds length) {
  const auto answer = ask("lease/grant", EtcdJson{{"TTL", std::to_string(length.count())}}.dump(), true);
  if (!answer) return answer.error();
  try {
    return number_in(EtcdJson::parse(*answer), "ID");
  } catch (const EtcdJson::exception& why) {
    return not_understood(why);
  }
}

Result<bool> Etcd::renew(Lease lease) {
  const auto answer = ask("lease/keepalive", EtcdJson{{"ID", std::to_string(lease)}}.dump(), false);
  if (!answer) return answer.error();
  try {
    return number_in(EtcdJson::parse(*answer).at("result"), "TTL") > 0;
  } catch (const EtcdJson::exception& why) {
    return not_understood(why);
  }
}

void Etcd::give_back(Lease lease) {
  (void)ask("lease/revoke", EtcdJson{{"ID", std::to_string(lease)}}.dump(), true);
}

}  // namespace stretto
