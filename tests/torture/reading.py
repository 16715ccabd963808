"""Reads whole topics: all records of each partition, in offset order."""

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.log.port import Record


async def whole(brokers: str, topic: str, partitions: int) -> list[list[Record]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="earliest", max_partition_fetch_bytes=8 << 20)
    await consumer.start()
    try:
        tps = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        await consumer.seek_to_beginning(*tps)
        read: list[list[Record]] = [[] for _ in tps]
        left = [tp for tp in tps if ends[tp]]
        while left := [tp for tp in left if await consumer.position(tp) < ends[tp]]:
            for tp, records in (await consumer.getmany(*left, timeout_ms=500)).items():
                read[tp.partition] += [
                    Record(tp.topic, tp.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                ]
        return read
    finally:
        await consumer.stop()
