// The part of Stretto that is linked with an MPI, one module each; loaded by mpi.cc. Nothing else includes mpi.h.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/words.h"
#include "stretto/transport/hosts/mpi.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

constexpr int kPieces = 1;           // the tag
constexpr int kMostAtOnce = 64;      // pieces, before the carrier looks at other things
constexpr Duration kSoonest = 20us;  // polls behind one in which something moved
constexpr Duration kLatest = 1ms;
constexpr Duration kDozing = 20ms;
/// While pieces are on their way MPI moves over TCP, when it is called, what a buffer of the socket holds.
constexpr Duration kUnderWay = 300us;
/// MPICH is not: over UCX a rank may wait there for ever, for one that has come to the end before it and moves nothing
/// any more. Its process manager hears of a rank's end by PmiBulletin::end().
#ifdef OPEN_MPI
constexpr bool kIsFinalized = true;
#else
constexpr bool kIsFinalized = false;
#endif

std::string words_of(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(error, words.data(), &length) != MPI_SUCCESS) return text("error ", error);
  return {words.data(), static_cast<std::size_t>(length)};
}

/// MPI in this process: from the first rank on that goes by it until the process ends, since it cannot begin twice.
class MpiOfProcess {
 public:
  /// Ends MPI where all ranks do, which wait for each other there: each has passed the barrier of all that leave.
  ~MpiOfProcess() {
    if (kIsFinalized && ends_ && began_ && process_ == ::getpid()) MPI_Finalize();
  }

  /// Returns why it cannot be; empty: it is. Collective the first time.
  std::string begin(int rank, int ranks) {
    int is_there = 0, is_over = 0;
    MPI_Initialized(&is_there);
    MPI_Finalized(&is_over);
    ends_ = false;
    if (is_over != 0) return "MPI has ended in this process, and cannot begin again";
    int threads = MPI_THREAD_SINGLE;
    if (is_there == 0) {
      // MPICH may go by UCX, which would ask the receiver before it sends a piece.
      ::setenv("UCX_RNDV_THRESH", "inf", 0);
      if (const int failed = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads); failed != MPI_SUCCESS) {
        return words_of(failed);
      }
      began_ = true;
    } else {
      MPI_Query_thread(&threads);
    }
    int has_rank = 0, has_ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &has_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &has_ranks);
    if (has_rank != rank || has_ranks != ranks) {
      ends_ = has_ranks == 1;
      return text("MPI sees it as rank ", has_rank, " of ", has_ranks,
                  ", as where its process manager has not started the ranks, or not all of them");
    }
    if (threads < MPI_THREAD_MULTIPLE) {
      return is_there != 0 ? "the program has begun MPI without MPI_THREAD_MULTIPLE"
                           : "this MPI lets no second thread call it (MPI_THREAD_MULTIPLE)";
    }
    if (comm_ == MPI_COMM_NULL) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
      MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    return {};
  }
  MPI_Comm comm() const { return comm_; }
  void end_with_process() { ends_ = true; }

 private:
  const pid_t process_ = ::getpid();
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool began_ = false;  // here
  bool ends_ = false;
};

MpiOfProcess& mpi_of_process() {
  static MpiOfProcess mpi;
  return mpi;
}

class MpiWay final : public PieceWay {
 public:
  explicit MpiWay(MpiOfProcess& mpi) : mpi_(mpi), comm_(mpi.comm()), last_moved_(clock_.now()) {}
  ~MpiWay() override {
    for (Piece* const piece : posted_) piece->is_kept = true;  // MPI has no way to take a send back
  }

  std::vector<std::byte> address() const override { return {}; }
  void begin(PieceSink& sink) override { sink_ = &sink; }
  void link(int, std::span<const std::byte>) override { is_linked_ = true; }
  void post(Piece& piece) override;
  bool has_work() override { return is_linked_; }
  bool progress() override;
  bool rest() override { return true; }
  bool dozes() const override { return true; }
  void wake() override { last_moved_ = clock_.now(); }
  TimePoint progress_by() const override;
  bool leave() override;

 private:
  bool send();
  bool receive();

  MpiOfProcess& mpi_;
  const MPI_Comm comm_;
  const SteadyClock clock_;
  PieceSink* sink_ = nullptr;
  bool is_linked_ = false;  // some peer is: others send nothing
  std::vector<MPI_Request> requests_;
  std::vector<Piece*> posted_;  // of each request
  std::vector<int> complete_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::byte> buffer_;
  MPI_Request all_leave_ = MPI_REQUEST_NULL;
  bool has_left_ = false;
  TimePoint last_moved_, last_polled_;
};

void MpiWay::post(Piece& piece) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int failed =
      MPI_Isend(piece.room.data(), static_cast<int>(piece.bytes), MPI_BYTE, piece.peer, kPieces, comm_, &request);
  last_moved_ = clock_.now();  // an answer may come soon
  if (failed == MPI_SUCCESS) {
    requests_.push_back(request);
    posted_.push_back(&piece);
    return;
  }
  const int peer = piece.peer;
  sink_->left(piece);
  sink_->broken(peer, words_of(failed));
}

bool MpiWay::progress() {
  bool moved = send();
  for (int i = 0; i < kMostAtOnce && receive(); ++i) moved = true;
  last_polled_ = clock_.now();
  if (moved) last_moved_ = last_polled_;
  return moved;
}

/// Sees which pieces have left.
bool MpiWay::send() {
  if (requests_.empty()) return false;
  complete_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int said =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, complete_.data(), statuses_.data());
  if (count <= 0) return false;  // MPI_UNDEFINED is negative
  std::vector<std::pair<Piece*, int>> left;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(complete_[static_cast<std::size_t>(i)]);
    left.emplace_back(std::exchange(posted_[at], nullptr),
                      said == MPI_ERR_IN_STATUS ? statuses_[static_cast<std::size_t>(i)].MPI_ERROR : said);
    requests_[at] = MPI_REQUEST_NULL;
  }
  std::erase(requests_, MPI_REQUEST_NULL);
  std::erase(posted_, nullptr);
  for (const auto& [piece, failed] : left) {
    const int peer = piece->peer;
    sink_->left(*piece);
    if (failed != MPI_SUCCESS) sink_->broken(peer, words_of(failed));
  }
  return true;
}

/// Takes the next piece of any peer, if there is one.
bool MpiWay::receive() {
  int there = 0, bytes = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, kPieces, comm_, &there, &message, &status) != MPI_SUCCESS || there == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (buffer_.size() < static_cast<std::size_t>(bytes)) buffer_.resize(static_cast<std::size_t>(bytes));
  const int peer = status.MPI_SOURCE;
  if (const int failed = MPI_Mrecv(buffer_.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      failed != MPI_SUCCESS) {
    sink_->broken(peer, words_of(failed));
  } else {
    sink_->came(peer, {buffer_.data(), static_cast<std::size_t>(bytes)});
  }
  return true;
}

TimePoint MpiWay::progress_by() const {
  if (!is_linked_) return TimePoint::never();
  const Duration still = last_polled_ - last_moved_;
  const Duration latest = !requests_.empty() ? kUnderWay : still < kUntilDozing ? kLatest : kDozing;
  return last_polled_ + std::clamp<Duration>(still / 8, kSoonest, latest);
}

bool MpiWay::leave() {
  if (has_left_) return true;
  if (all_leave_ == MPI_REQUEST_NULL && MPI_Ibarrier(comm_, &all_leave_) != MPI_SUCCESS) return false;
  int all = 0;
  if (MPI_Test(&all_leave_, &all, MPI_STATUS_IGNORE) != MPI_SUCCESS || all == 0) return false;
  mpi_.end_with_process();
  has_left_ = true;
  return true;
}

}  // namespace
}  // namespace stretto

extern "C" __attribute__((visibility("default"))) const char* stretto_mpi_library_version() {
  static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  MPI_Get_library_version(words.data(), &length);
  return words.data();
}

extern "C" __attribute__((visibility("default"))) stretto::PieceWay* stretto_start_mpi_way(int rank, int ranks,
                                                                                           std::string* error) {
  stretto::MpiOfProcess& mpi = stretto::mpi_of_process();
  *error = mpi.begin(rank, ranks);
  return error->empty() ? new stretto::MpiWay(mpi) : nullptr;
}
