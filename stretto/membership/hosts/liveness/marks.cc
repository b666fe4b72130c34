#include "stretto/membership/hosts/liveness/marks.h"

#include "stretto/base/defect.h"
#include "stretto/base/words.h"

namespace stretto {

void take_goodbyes(const HostNews& news, const Members& members, LivenessRule& rule, TimePoint now) {
  for (int rank = 0; rank < members.size(); ++rank) {
    if (news.has_left(rank)) rule.learn({LivenessFact::Kind::left, rank}, -1, now);
  }
}

void take_up(const HostNews& news, const Members& members, LivenessRule& rule, TimePoint now) {
  take_goodbyes(news, members, rule, now);
  for (const Error& why : news.all_lost()) {
    rule.learn({LivenessFact::Kind::ended, why.rank, 0, why.message, why.code == Errc::aborted}, -1, now);
  }
}

void learn_and_keep(const LivenessFact& fact, int by, HostNews& news, LivenessRule& rule, TimePoint now) {
  if (fact.kind == LivenessFact::Kind::left) news.leave(fact.a);
  rule.learn(fact, by, now);
}

void mark(const LivenessRule::Action& action, const LivenessRule& rule, const Members& members, int host,
          std::span<const std::string> names, Duration limit, HostNews& news) {
  using Kind = LivenessRule::Action::Kind;
  const LivenessFact& fact = action.fact;
  const auto lose = [&](int rank, Errc code, const std::string& why) {
    if (members.host_of(rank) != host) news.lose({code, why, rank});
  };
  const auto lose_all = [&](const std::string& why) {
    for (const int rank : members.on(action.host)) {
      if (!rule.is_gone(rank)) lose(rank, Errc::lost_peer, why);
    }
  };
  const auto name_of = [&](int which) { return names[static_cast<std::size_t>(members.on(which).front())]; };
  switch (action.kind) {
    case Kind::ended: return lose(fact.a, fact.aborted ? Errc::aborted : Errc::lost_peer, fact.why);
    case Kind::silent:
      return lose_all(text(name_of(action.host), " with ", ranks_in_words(members.on(action.host)),
                           " is lost: nothing has come from it for ", to_text(limit)));
    case Kind::cut:
      return lose_all(text(name_of(fact.a), " hears nothing of ", name_of(fact.b), " with ",
                           ranks_in_words(members.on(fact.b)),
                           ", which other hosts hear: the link between them is cut"));
    case Kind::beat:
    case Kind::tell: return;
  }
}

std::optional<LivenessFact> end_by_line(int rank, const Error& why) {
  if (why.code != Errc::bad_input && !defect(Defect::connection_end_is_loss)) return std::nullopt;
  return LivenessFact{LivenessFact::Kind::ended, rank, 0, text("rank ", rank, " is lost: ", why.message)};
}

}  // namespace stretto
