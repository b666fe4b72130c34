#include "stretto/transport/hosts/ucx.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <asio/posix/stream_descriptor.hpp>
#include <atomic>
#include <cstring>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/transport/hosts/piece_carrier.h"
#include "stretto/transport/hosts/ucx_library.h"
#include "stretto/transport/hosts/ucx_worker.h"

namespace stretto {
namespace {

/// In front of each piece.
struct PieceHeader {
  std::uint64_t secret;  // the hash of the job's token
  std::uint64_t number;  // Piece::number
  std::uint32_t from;
  std::uint32_t unused = 0;
};
static_assert(sizeof(PieceHeader) <= sizeof(Piece::header));

class UcxWay final : public PieceWay {
 public:
  UcxWay(const UcxLibrary& ucx, NetworkThread& network, const UcxOptions& options, const Doorbell& doorbell);
  ~UcxWay() override;

  std::vector<std::byte> address() const override { return worker_->address(); }
  void begin(PieceSink& sink) override;
  void link(int peer, std::span<const std::byte> address) override;
  void post(Piece& piece) override;
  bool has_work() override;
  bool progress() override { return ucx_.worker_progress(worker_->get()) != 0; }
  bool rest() override;
  TimePoint progress_by() const override;

 private:
  struct Peer {
    UcxWay* way = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t came = 0;  // pieces
  };

  static void posted(void* request, ucs_status_t status, void* piece);
  static ucs_status_t received(void* self, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                               const ucp_am_recv_param_t* how);
  void fail(int peer, ucs_status_t status) { sink_->broken(peer, ucx_.status_string(status)); }

  const UcxLibrary& ucx_;
  NetworkThread& network_;
  const int rank_;
  const std::uint64_t secret_;
  Doorbell doorbell_;
  std::atomic<bool> awake_{true};  // the descriptor has something; set by the network's thread
  bool listened_to_ = false;       // by the network's thread, until it sets awake_
  bool touched_ = false;           // something was posted since the worker was asleep
  PieceSink* sink_ = nullptr;
  std::vector<Peer> peers_;  // by rank
  std::unique_ptr<UcxWorker> worker_;
  asio::posix::stream_descriptor descriptor_;
};

UcxWay::UcxWay(const UcxLibrary& ucx, NetworkThread& network, const UcxOptions& options, const Doorbell& doorbell)
    : ucx_(ucx),
      network_(network),
      rank_(options.rank),
      secret_(XXH3_64bits(options.token.data(), options.token.size())),
      doorbell_(doorbell),
      worker_(std::make_unique<UcxWorker>(ucx, options)),
      descriptor_(network.io(), worker_->descriptor()) {
  for (int rank = 0; rank < options.ranks; ++rank) peers_.push_back({.way = this, .rank = rank});
}

UcxWay::~UcxWay() {
  network_.run([this] {
    descriptor_.cancel();
    descriptor_.release();  // UCX's own
  });
  network_.run([] {});  // what waited for it has heard
  worker_.reset();      // the last use of pieces
}

void UcxWay::begin(PieceSink& sink) {
  sink_ = &sink;
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 0;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &UcxWay::received;
  handler.arg = this;
  ucx_.set_am_recv_handler(worker_->get(), &handler);
}

void UcxWay::link(int rank, std::span<const std::byte> address) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = &peer;
  params.err_handler.cb = [](void* of, ucp_ep_h, ucs_status_t status) {
    const auto& it = *static_cast<Peer*>(of);
    it.way->fail(it.rank, status);
  };
  const ucs_status_t status = ucx_.ep_create(worker_->get(), &params, &peer.endpoint);
  if (status != UCS_OK) fail(rank, status);
}

void UcxWay::post(Piece& piece) {
  const PieceHeader header{.secret = secret_, .number = piece.number, .from = static_cast<std::uint32_t>(rank_)};
  std::memcpy(piece.header.data(), &header, sizeof header);
  piece.way = this;
  touched_ = true;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &UcxWay::posted;
  param.user_data = &piece;
  const Peer& peer = peers_[static_cast<std::size_t>(piece.peer)];
  const ucs_status_ptr_t request =
      ucx_.am_send_nbx(peer.endpoint, 0, piece.header.data(), sizeof header, piece.room.data(), piece.bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return;
  sink_->left(piece);
  if (UCS_PTR_IS_ERR(request)) fail(peer.rank, UCS_PTR_STATUS(request));
}

/// UCX has sent a piece, or never will.
void UcxWay::posted(void* request, ucs_status_t status, void* of) {
  auto& piece = *static_cast<Piece*>(of);
  UcxWay& way = *static_cast<UcxWay*>(piece.way);
  const int peer = piece.peer;
  way.ucx_.request_free(request);
  way.sink_->left(piece);
  if (status != UCS_OK) way.fail(peer, status);
}

ucs_status_t UcxWay::received(void* self, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                              const ucp_am_recv_param_t* how) {
  auto& way = *static_cast<UcxWay*>(self);
  PieceHeader piece;
  // What does not know the secret comes from elsewhere.
  if (header_bytes != sizeof piece || (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&piece, header, sizeof piece);
  if (piece.secret != way.secret_ || piece.from >= way.peers_.size()) return UCS_OK;
  Peer& peer = way.peers_[piece.from];
  if (piece.number == peer.came) {
    ++peer.came;
    way.sink_->came(peer.rank, {static_cast<const std::byte*>(data), bytes});
  } else {
    way.sink_->broken(peer.rank, text("piece ", piece.number, " came as ", peer.came));
  }
  return UCS_OK;
}

TimePoint UcxWay::progress_by() const {
  return touched_ || awake_.load(std::memory_order_relaxed) ? TimePoint{} : TimePoint::never();
}

bool UcxWay::has_work() {
  if (awake_.exchange(false, std::memory_order_acquire)) listened_to_ = false, touched_ = true;
  return touched_;
}

/// Returns whether the worker sleeps: its descriptor wakes it up.
bool UcxWay::rest() {
  if (ucx_.worker_arm(worker_->get()) != UCS_OK) return false;
  touched_ = false;
  if (std::exchange(listened_to_, true)) return true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error) return;
    awake_.store(true, std::memory_order_release);
    doorbell_.ring();
  });
  return true;
}

}  // namespace

Result<std::string> ucx_version() {
  const auto ucx = load_ucx();
  if (!ucx) return ucx.error();
  return (*ucx)->version;
}

std::unique_ptr<Carrier> start_ucx(NetworkThread& network, TcpCarrier& control, const UcxOptions& options,
                                   const Doorbell& doorbell) {
  const UcxLibrary& ucx = *load_ucx().or_throw();
  auto way = std::make_unique<UcxWay>(ucx, network, options, doorbell);
  return std::make_unique<PieceCarrier>("UCX", std::move(way), control, options.ranks, options.missed_after);
}

}  // namespace stretto
