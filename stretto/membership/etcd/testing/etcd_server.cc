#include "stretto/membership/etcd/testing/etcd_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include "stretto/base/descriptor.h"
#include "stretto/base/words.h"

namespace stretto {
namespace {

constexpr Duration kWatchdog = std::chrono::seconds(60);

/// A port that was free a moment ago.
std::uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  STRETTO_CHECK(::bind(socket.get(), any, size) == 0 && ::getsockname(socket.get(), any, &size) == 0, "no free port");
  return ntohs(address.sin_port);
}

}  // namespace

bool EtcdServer::is_there() {
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (std::filesystem::exists(folder + "/etcd")) return true;
  }
  return false;
}

EtcdServer::EtcdServer() : port_(free_port()), peer_port_(free_port()) {
  start();
}

EtcdServer::~EtcdServer() {
  end();
}

void EtcdServer::start() {
  const std::string url = text("http://127.0.0.1:", port_), peer_url = text("http://127.0.0.1:", peer_port_);
  std::vector<std::string> words{"etcd",
                                 "--data-dir",
                                 folder_.path() + "/data",
                                 "--listen-client-urls",
                                 url,
                                 "--advertise-client-urls",
                                 url,
                                 "--listen-peer-urls",
                                 peer_url,
                                 "--initial-advertise-peer-urls",
                                 peer_url,
                                 "--initial-cluster",
                                 text("default=", peer_url),
                                 "--logger",
                                 "zap"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const std::string log = folder_.path() + "/log";
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&files, file, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  }
  STRETTO_CHECK(::posix_spawnp(&process_, "etcd", &files, nullptr, arguments.data(), environ) == 0, "no etcd starts");
  ::posix_spawn_file_actions_destroy(&files);
  const SteadyClock clock;
  Etcd etcd({server()});
  for (const TimePoint by = clock.now() + kWatchdog; !etcd.read("any");) {
    STRETTO_CHECK(clock.now() < by, "etcd does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void EtcdServer::end() {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
}

void EtcdServer::signal(int number) const {
  ::kill(process_, number);
}

}  // namespace stretto
