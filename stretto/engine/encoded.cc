// How the engine sends and receives bodies that a codec has made shorter; engine.cc has all other messages.

#include <algorithm>
#include <utility>

#include "stretto/base/defect.h"
#include "stretto/engine/engine.h"
#include "stretto/engine/instance.h"

namespace stretto {

using OpState = Instance::OpState;

std::span<const std::byte> Engine::encoded(Instance& instance, OpId id, BodyCodec& codec,
                                           std::span<const std::byte> body) {
  const Op& op = instance.prepared->schedule().op(id);
  Block block = body.data() == nullptr ? Block{} : pool_.take(body.size());
  const std::size_t bytes = codec.encode(op.peer, op.channel, body, block.data());
  if (bytes == 0) {
    pool_.give_back(std::move(block));
    return body;
  }
  instance.encoded.emplace_back(id, std::move(block));
  return {instance.encoded.back().second.data(), bytes};
}

/// A send has left.
void Engine::give_back_encoded(Instance& instance, OpId op) {
  const auto found = std::ranges::find(instance.encoded, op, &std::pair<OpId, Block>::first);
  if (found == instance.encoded.end()) return;
  pool_.give_back(std::move(found->second));
  instance.encoded.erase(found);
}

std::byte* Engine::begin_encoded(int peer, const Envelope& envelope, RunningOp op, Arriving& arriving) {
  arriving.to = Arriving::To::encoded;
  arriving.op = op;
  arriving.kept = {peer, envelope, {}, pool_.take(envelope.body_bytes)};
  return arriving.kept.body.data();
}

/// No round takes the message, but the codec may have to see it.
std::byte* Engine::begin_unwanted(int peer, const Envelope& envelope, Arriving& arriving) {
  const BodyCodec* const codec = collectives_[envelope.collective].codec;
  if (codec == nullptr || !codec->sees_all() || envelope.body_bytes == 0) return nullptr;
  if (!transport_.carries_payload() || defect(Defect::late_not_decoded)) return nullptr;
  return begin_encoded(peer, envelope, {.op = kNoOp}, arriving);
}

/// A body that has been encoded, or that the codec is to see, is whole: decodes it, for its receive if that is still
/// there.
void Engine::end_encoded(Arriving& arriving) {
  Kept message = std::exchange(arriving.kept, {});
  const Collective& collective = collectives_[message.envelope.collective];
  if (collective.client == nullptr) return pool_.give_back(std::move(message.body));  // removed
  Instance* instance = arriving.op.op == kNoOp ? nullptr : alive(arriving.op);
  if (instance != nullptr && instance->completed) instance = nullptr;
  const OpId id = arriving.op.op;
  const std::uint64_t bytes =
      instance == nullptr ? 0 : instance->prepared->bytes(instance->prepared->schedule().op(id).dst);
  const bool is_itself = message.envelope.body_bytes == bytes;
  Block decoded = is_itself ? Block{} : pool_.take(bytes);
  const std::span<std::byte> to(decoded.data(), is_itself ? 0 : bytes);
  const std::span<const std::byte> body(message.body.data(), message.envelope.body_bytes);
  if (!collective.codec->decode(message.peer, message.envelope.channel, body, to)) {
    return broken(collective, message.envelope, message.peer, "its body is not what the codec makes");
  }
  if (is_itself) std::swap(decoded, message.body);
  pool_.give_back(std::move(message.body));
  if (instance == nullptr) return;
  Instance::Early& early = instance->early[static_cast<std::size_t>(instance->prepared->early_of(id))];
  early.block = std::move(decoded);
  early.here = early.present = true;
  if (instance->state[id] == OpState::fired) accept(*instance, id, false);
}

}  // namespace stretto
