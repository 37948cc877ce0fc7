"""cqlengine's models over every type, its queries and its batches: cqlengine_models.py PORT"""

import datetime
import decimal
import os
import sys
import time
import uuid

from cassandra.cqlengine import columns, connection, management
from cassandra.cqlengine.functions import Token
from cassandra.cqlengine.models import Model
from cassandra.cqlengine.query import BatchQuery, DoesNotExist, LWTException
from cassandra.cqlengine.usertype import UserType
from cassandra.util import Date, Duration, Time

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"


class Place(UserType):
    x = columns.Integer()
    name = columns.Text()


class Everything(Model):
    k = columns.UUID(primary_key=True, default=uuid.uuid4)
    c = columns.Integer(primary_key=True, clustering_order="DESC")
    shared = columns.Text(static=True)
    ascii = columns.Ascii()
    bigint = columns.BigInt()
    blob = columns.Blob()
    boolean = columns.Boolean()
    date = columns.Date()
    decimal = columns.Decimal()
    double = columns.Double()
    duration = columns.Duration()
    float = columns.Float()
    inet = columns.Inet()
    integer = columns.Integer(index=True)
    smallint = columns.SmallInt()
    text = columns.Text()
    time = columns.Time()
    moment = columns.DateTime()
    timeuuid = columns.TimeUUID()
    tinyint = columns.TinyInt()
    varint = columns.VarInt()
    numbers = columns.List(columns.Integer)
    tags = columns.Set(columns.Text)
    scores = columns.Map(columns.Text, columns.Integer)
    pair = columns.Tuple(columns.Integer, columns.Text)
    place = columns.UserDefinedType(Place)
    places = columns.List(columns.UserDefinedType(Place))


class Hits(Model):
    page = columns.Text(primary_key=True)
    count = columns.Counter()


class Session(Model):
    __options__ = {"default_time_to_live": 3600, "comment": "sessions"}
    token = columns.Text(primary_key=True)
    owner = columns.Text()


class Animal(Model):
    __table_name__ = "animals"
    name = columns.Text(primary_key=True)
    kind = columns.Text(discriminator_column=True)


class Cat(Animal):
    __discriminator_value__ = "cat"
    lives = columns.Integer()


VALUES = {
    "ascii": "a",
    "bigint": -(2**63),
    "blob": b"\x00\xff",
    "boolean": False,
    "date": Date(datetime.date(1969, 12, 31)),
    "decimal": decimal.Decimal("-1.50"),
    "double": 1e300,
    "duration": Duration(1, 0, 3),
    "float": -1.5,
    "inet": "2001:db8::ff",
    "integer": 7,
    "smallint": -32768,
    "text": "it's ünï",
    "time": Time("23:59:59.999999999"),
    "moment": datetime.datetime(2026, 11, 26, 10, 0, 0, 123000),
    "timeuuid": uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"),
    "tinyint": -128,
    "varint": 2**127,
    "numbers": [3, 1, 3],
    "tags": {"a", "b"},
    "scores": {"a": 1, "b": 2},
    "pair": (7, "x"),
    "place": Place(x=1, name="p"),
    "places": [Place(x=1, name="p"), Place(x=None, name=None)],
}


def values_come_back():
    made = Everything.create(c=1, shared="s", **VALUES)
    found = Everything.get(k=made.k, c=1)
    for name, value in VALUES.items():
        assert getattr(found, name) == value, (name, getattr(found, name))
    assert found.shared == "s"
    # Every column is removed when it is set to None.
    empty = {name: None for name in VALUES}
    Everything.objects(k=made.k, c=1).update(**empty)
    found = Everything.get(k=made.k, c=1)
    for name in VALUES:
        assert not getattr(found, name), name


def collections_change():
    row = Everything.create(c=2, **VALUES)
    rows = Everything.objects(k=row.k, c=2)
    rows.update(numbers__append=[9], tags__add={"c"}, tags__remove={"a"}, scores__update={"c": 3})
    rows.update(numbers__prepend=[0], scores__remove={"a"})
    found = rows.get()
    assert found.numbers == [0, 3, 1, 3, 9], found.numbers
    assert found.tags == {"b", "c"}, found.tags
    assert found.scores == {"b": 2, "c": 3}, found.scores
    found.numbers.append(5)
    found.scores["d"] = 4
    found.place.x = 8
    found.save()
    found = rows.get()
    assert (found.numbers[-1], found.scores["d"], found.place.x) == (5, 4, 8)


def queries_find_rows():
    k = uuid.uuid4()
    for c in range(20):
        Everything.create(k=k, c=c, integer=100 + c % 2, text=f"t{c}")
    rows = Everything.objects(k=k)
    assert rows.count() == 20
    assert [row.c for row in rows.limit(3)] == [19, 18, 17]
    assert [row.c for row in rows.order_by("c").limit(2)] == [0, 1]
    assert [row.c for row in rows.filter(c__gte=5, c__lt=8)] == [7, 6, 5]
    assert [row.c for row in rows.filter(c__in=[1, 3])] == [3, 1]
    assert len(Everything.objects(integer=101)) == 10, "through the index"
    assert sorted(Everything.objects(k=k).values_list("c", flat=True)) == list(range(20))
    assert len(rows.fetch_size(3)) == 20, "in pages"
    assert [row.text for row in rows.only(["c", "text"])][:1] == ["t19"]
    assert rows.filter(c=4).allow_filtering().get().text == "t4"
    rows.filter(c=4).delete()
    try:
        rows.get(c=4)
        raise AssertionError("it was deleted")
    except DoesNotExist:
        pass
    partitions = Everything.objects.distinct(["k"])
    assert partitions.count() == len(set(row.k for row in partitions))
    first = next(iter(Everything.objects.limit(1)))
    rest = Everything.objects(pk__token__gt=Token(first.pk))
    assert all(row.k != first.k for row in rest)


def conditions_hold():
    Session.if_not_exists().create(token="t", owner="a")
    try:
        Session.if_not_exists().create(token="t", owner="b")
        raise AssertionError("it exists")
    except LWTException as error:
        assert error.existing["owner"] == "a", error.existing
    session = Session.get(token="t")
    session.iff(owner="a").update(owner="c")
    try:
        session.iff(owner="a").update(owner="d")
        raise AssertionError("another one owns it")
    except LWTException as error:
        assert error.existing["owner"] == "c", error.existing
    Session.objects(token="t").if_exists().update(owner="e")
    Session.objects(token="t").iff(owner="e").delete()
    assert not Session.objects(token="t")


def values_expire():
    # Five seconds suffice for the reads before the end, also on a busy machine.
    Session.ttl(5).create(token="short", owner="a")
    Session.create(token="long", owner="a")
    Session.objects(token="long").ttl(5).update(owner="b")
    assert Session.get(token="short").owner == "a"
    until = time.monotonic() + 30
    while Session.objects(token="short") or Session.get(token="long").owner is not None:
        assert time.monotonic() < until, "the values do not expire"
        time.sleep(0.1)


def batches_are_applied():
    with BatchQuery() as batch:
        for name in "abc":
            Session.batch(batch).create(token=name, owner=name)
        Session.objects(token="a").batch(batch).delete()
    assert sorted(row.token for row in Session.objects) == ["b", "c", "long"]
    try:
        with BatchQuery() as batch:
            Session.batch(batch).create(token="d", owner="d")
            raise KeyError
    except KeyError:
        assert not Session.objects(token="d"), "the batch was not executed"
    with BatchQuery() as batch:
        Session.batch(batch).if_not_exists().create(token="e", owner="e")
    assert Session.get(token="e").owner == "e"


def counters_count():
    for amount in (5, -2):
        hits = Hits(page="p")
        hits.count += amount
        hits.save()
    found = Hits.get(page="p")
    found.count += 1
    found.save()
    assert Hits.get(page="p").count == 4


def models_share_a_table():
    Cat.create(name="tom", lives=9)
    assert isinstance(Animal.get(name="tom"), Cat)
    assert Cat.get(name="tom").lives == 9


def schemas_change():
    class Session(Model):
        token = columns.Text(primary_key=True)
        owner = columns.Text()
        seen = columns.DateTime()

    management.sync_table(Session)
    Session.create(token="seen", seen=datetime.datetime(2026, 1, 1))
    assert Session.get(token="seen").seen.year == 2026
    management.drop_table(Session)


connection.setup(["127.0.0.1"], "engine", port=int(sys.argv[1]), protocol_version=4)
management.create_keyspace_simple("engine", 1)
management.sync_type("engine", Place)
for model in (Everything, Hits, Session, Cat):
    management.sync_table(model)
values_come_back()
collections_change()
queries_find_rows()
conditions_hold()
values_expire()
batches_are_applied()
counters_count()
models_share_a_table()
schemas_change()
management.drop_keyspace("engine")
connection.unregister_connection("default")
