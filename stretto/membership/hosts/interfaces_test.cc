#include "stretto/membership/hosts/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace stretto {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(Interfaces, AreChosenAsNcclChoosesThem) {
  const auto loopback = asio::ip::make_address("127.0.0.1");
  for (const char* wanted : {"lo", "=lo", "eth_none,lo", "l", "^none"}) {
    EXPECT_THAT(addresses_of_interfaces(wanted).value(), Contains(loopback)) << wanted;
  }
  for (const char* wanted : {"=l", "none", "^lo,eth,en,docker,br,veth,wl,tun,tap"}) {
    const auto found = addresses_of_interfaces(wanted);
    if (found) {
      EXPECT_THAT(*found, Not(Contains(loopback))) << wanted;
      continue;
    }
    EXPECT_EQ(found.error().code, Errc::unavailable);
    EXPECT_THAT(found.error().message, HasSubstr(text('"', wanted, '"')));
    EXPECT_THAT(found.error().message, HasSubstr("lo (127.0.0.1)"));
  }
  if (const auto all = addresses_of_interfaces("")) {
    EXPECT_THAT(*all, Not(Contains(loopback)));
  }
}

TEST(Ports, AreARangeOrAny) {
  const auto ports = [](const char* words) {
    setenv("STRETTO_PORTS", words, 1);
    const PortRange range = wanted_ports();
    return text(range.first, " to ", range.last);
  };
  EXPECT_EQ(ports("20000-20100"), "20000 to 20100");
  EXPECT_EQ(ports("7-7"), "7 to 7");
  EXPECT_EQ(ports(""), "0 to 0");
  for (const char* words : {"20100-20000", "20000", "20000-", "-20000", "0-5", "20000-70000", "a-b", "1-2x", "1 - 2"}) {
    EXPECT_THROW(ports(words), UsageError) << words;
  }
  unsetenv("STRETTO_PORTS");
  EXPECT_EQ(wanted_ports().first, 0);
}

}  // namespace
}  // namespace stretto
