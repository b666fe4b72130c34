#include "stretto/train/replica/identity.h"

#include "stretto/train/replica/flat_math.h"

namespace stretto {

ReplicaIdentity identity_of(const Replica& replica) {
  const std::string optimizer = replica.optimizer_description();
  return {.library = replica.library(),
          .model = Hash64::of(replica.model_description()),
          .optimizer = optimizer.substr(0, optimizer.find('\n'))};
}

}  // namespace stretto
