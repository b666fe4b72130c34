#include "stretto/ordering/negotiation/control_messages.h"

#include "stretto/ordering/orderer/byte_stream.h"

namespace stretto {
namespace {

void write(ByteWriter& out, const std::vector<TensorDescription>& tensors) {
  out.number(tensors.size());
  for (const TensorDescription& tensor : tensors) out.tensor(tensor);
}

std::vector<TensorDescription> read_tensors(ByteReader& in, int set) {
  std::vector<TensorDescription> tensors;
  for (std::uint64_t n = in.count(kLeastTensorBytes); n > 0 && in.good(); --n) tensors.push_back(in.tensor(set));
  return tensors;
}

}  // namespace

std::vector<std::byte> MemberReport::encode() const {
  ByteWriter out;
  out.number(std::uint64_t{ended} | std::uint64_t{drained} << 1);
  out.numbers(words);
  write(out, requests);
  out.number(pending.size());
  for (const std::string& name : pending) out.words(name);
  out.words(waits_for);
  return out.take();
}

Result<MemberReport> MemberReport::decode(std::span<const std::byte> bytes, int set) {
  ByteReader in(bytes);
  MemberReport report;
  const std::uint64_t flags = in.number();
  report.ended = (flags & 1) != 0;
  report.drained = (flags & 2) != 0;
  report.words = in.numbers();
  report.requests = read_tensors(in, set);
  for (std::uint64_t n = in.count(sizeof(std::uint64_t)); n > 0 && in.good(); --n) report.pending.push_back(in.words());
  report.waits_for = in.words();
  if (!in.whole() || flags > 3) return Error{Errc::bad_input, "requests of a member that cannot be read"};
  return report;
}

std::vector<std::byte> CoordinatorAnswer::encode() const {
  ByteWriter out;
  out.numbers(words);
  write(out, tensors);
  out.number(error ? 1 + static_cast<std::uint64_t>(error->code) : 0);
  out.words(error ? error->message : std::string());
  return out.take();
}

Result<CoordinatorAnswer> CoordinatorAnswer::decode(std::span<const std::byte> bytes, int set) {
  ByteReader in(bytes);
  CoordinatorAnswer answer;
  answer.words = in.numbers();
  answer.tensors = read_tensors(in, set);
  const std::uint64_t code = in.number();
  const std::string message = in.words();
  if (code > 0) answer.error = Error{static_cast<Errc>(code - 1), message};
  if (!in.whole() || code > 1 + static_cast<std::uint64_t>(Errc::io))
    return Error{Errc::bad_input, "an answer of the first member that cannot be read"};
  return answer;
}

}  // namespace stretto
