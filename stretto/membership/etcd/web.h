#pragma once

#include <string>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto {

/// The answer of a server of the web.
struct WebAnswer {
  int status = 0;    ///< of HTTP
  std::string body;  ///< as it came
};

/// A client that posts to servers of the web, by the machine's libcurl, which is loaded when the first one is made. One
/// thread an object, which waits for answers.
class WebClient {
 public:
  WebClient();  ///< Throws Failure (Errc::unavailable) where the machine has no libcurl.
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  /// Posts `body`, past any proxy. Errc::lost_peer: nobody listens there, and nothing has been said; Errc::timeout:
  /// what was said may have been heard.
  Result<WebAnswer> post(const std::string& url, const std::string& body, Duration patience);

 private:
  void* const handle_;
};

}  // namespace stretto
