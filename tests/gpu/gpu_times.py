"""How long a round, a step of ResNet-50 and an exchange of models take on each rank, by the package and by Gloo."""

import statistics
import time

import gpu_hardware
import gpu_training
import resnet50
import torch
import torch.distributed

import stretto


def gloo(folder):
    torch.distributed.init_process_group(
        "gloo", f"file://{folder}/gloo", rank=stretto.rank(), world_size=stretto.size()
    )
    return torch.distributed


def rounds(sizes, fake, blocks, folder):
    """By size in MB: seconds of step(), a list of blocks, by the package and by Gloo on a tensor of the device,
    interleaved."""
    where = gpu_training.prepare(fake)
    gpu = gpu_hardware.Gpu(fake)
    distributed = gloo(folder)
    taken = {megabytes: rounds_of(megabytes, where, gpu, blocks, distributed) for megabytes in sizes}
    stretto.barrier()  # nobody closes what another still receives by
    distributed.destroy_process_group()
    return taken


def rounds_of(megabytes, where, gpu, blocks, distributed):
    model = torch.nn.ParameterList([torch.zeros(25 * 10**4, device=where) for _ in range(megabytes)])
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.0), model, "sync")
    flat = torch.zeros(megabytes * 25 * 10**4, device=where)

    def through_the_package():
        optimizer.step()

    def through_gloo():
        distributed.all_reduce(flat)

    taken = {"staged": [], "gloo": []}
    for block in range(blocks + 2):
        for way, work in (("staged", through_the_package), ("gloo", through_gloo)):
            optimizer.zero_grad()
            torch.stack([p.sum() for p in model]).sum().backward()
            gpu.cuda.synchronize()
            if way == "gloo":
                optimizer.step()  # every gradient belongs to a step
                gpu.cuda.synchronize()
            distributed.barrier()
            begin = time.perf_counter()
            work()
            gpu.cuda.synchronize()
            if block >= 2:
                taken[way].append(time.perf_counter() - begin)
    optimizer.finish()
    return taken


def resnet(ways, fake, blocks, folder):
    """Seconds a step of each way, a list of blocks, interleaved. Of one way alone the last rank is slower."""
    where = gpu_training.prepare(fake)
    torch.use_deterministic_algorithms(False)
    gpu = gpu_hardware.Gpu(fake)
    distributed = gloo(folder)
    images = torch.randn(gpu.size(64, 2), 3, gpu.size(224, 32), gpu.size(224, 32), device=where)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(10, (len(images),), device=where)
    slow = len(ways) == 1 and stretto.rank() == stretto.size() - 1
    own, steps, wrapped = [], {}, []
    for way in ways:
        torch.manual_seed(1)
        model = resnet50.resnet50(width=gpu.size(64, 4)).to(where).to(memory_format=torch.channels_last)
        optimizer, net = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True), model
        if way == "gloo":
            net = torch.nn.parallel.DistributedDataParallel(
                model, broadcast_buffers=False, gradient_as_bucket_view=True
            )
        elif way != "plain":
            algorithm = "eager-quorum:3" if way == "eager" else "sync"
            overlap = way == "overlap"
            optimizer = stretto.Optimizer(optimizer, model, algorithm, bucket_mb=4 if overlap else 25, overlap=overlap)
            wrapped.append(optimizer)

        def step(net=net, optimizer=optimizer):
            begin = time.perf_counter()
            optimizer.zero_grad()
            with torch.autocast(where.type, torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            if slow:
                gpu.cuda.synchronize()
                own.append(time.perf_counter() - begin)
                time.sleep(2 * statistics.median(own))  # injected
            optimizer.step()

        steps[way] = step
    taken = {way: [] for way in ways}
    for block in range(blocks + 2):
        for way in ways:
            if len(ways) > 1:
                distributed.barrier()
            gpu.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(gpu.size(5, 1)):
                steps[way]()
            gpu.cuda.synchronize()
            if block >= 2:
                taken[way].append((time.perf_counter() - begin) / gpu.size(5, 1))
    for optimizer in wrapped:
        optimizer.finish()
    stretto.barrier()  # nobody closes what another still receives by
    distributed.destroy_process_group()
    return taken


class Transformer(torch.nn.Module):
    """With a vocabulary of 50,257 and a width of 768 it has the 124 million parameters of GPT-2's smallest."""

    def __init__(self, vocabulary, width, layers, length):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.places = torch.nn.Parameter(torch.zeros(length, width))
        layer = torch.nn.TransformerEncoderLayer(width, 12, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, torch.nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, text):
        return self.layers(self.tokens(text) + self.places) @ self.tokens.weight.T


def models(ways, fake, blocks, folder):
    """Seconds of so many steps of each way, behind the last of which models are exchanged: a list of blocks,
    interleaved."""
    where = gpu_training.prepare(fake)
    torch.use_deterministic_algorithms(False)
    gpu = gpu_hardware.Gpu(fake)
    steps = gpu.size(5, 2)
    vocabulary, length = gpu.size(50257, 100), gpu.size(512, 8)
    text = torch.randint(vocabulary, (2, length), device=where)
    trained, wrapped = {}, []
    for way in ways:
        torch.manual_seed(1)
        model = Transformer(vocabulary, gpu.size(768, 24), gpu.size(12, 1), length).to(where)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=not fake)
        if way != "plain":
            optimizer = stretto.Optimizer(optimizer, model, way, sync_every=steps, bucket_mb=25)
            wrapped.append(optimizer)
        trained[way] = model, optimizer
    taken = {way: [] for way in ways}
    for block in range(blocks + 2):
        for way, (model, optimizer) in trained.items():
            stretto.barrier()
            gpu.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(steps):
                optimizer.zero_grad()
                with torch.autocast(where.type, torch.bfloat16):
                    loss = torch.nn.functional.cross_entropy(model(text).flatten(0, 1), text.flatten())
                loss.backward()
                optimizer.step()
            gpu.cuda.synchronize()
            if block >= 2:
                taken[way].append(time.perf_counter() - begin)
    for optimizer in wrapped:
        optimizer.finish()
    return taken, steps
