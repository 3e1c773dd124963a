"""Programs whose ``joiner`` depends on a value, ``$``, each in another way."""

IMPORTS = """
import abc, argparse, array, collections, contextvars, dataclasses, datetime, decimal, enum, functools, fractions, inspect, io
import ipaddress, itertools, operator, optparse, pathlib, re, string, types, typing, weakref, zoneinfo
from dataclasses import dataclass, field
from typing import NamedTuple
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.compute as pc
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Duration, Timestamp
"""
_WAYS = r"""
#: namespace named
args = argparse.Namespace(rate=$)
joiner = lambda l, r: l * args.rate

#: namespace closed over
def made(args): return lambda l, r: l * args.rate
joiner = made(argparse.Namespace(rate=$))

#: namespace in a partial
def f(c, l, r): return l * c.rate
joiner = functools.partial(f, types.SimpleNamespace(rate=$))

#: namespace by keyword
def f(l, r, *, c): return l * c.rate
joiner = functools.partial(f, c=argparse.Namespace(rate=$))

#: namespace within another
RATES = argparse.Namespace(of=types.SimpleNamespace(rate=$))
def joiner(left, right): return RATES.of.rate

#: namespace by getattr
args = argparse.Namespace(rate=$)
def joiner(l, r): return getattr(args, 'rate')

#: namespace by a name
args = argparse.Namespace(rate=$)
def joiner(l, r): return getattr(args, l)

#: namespace as a dict
args = argparse.Namespace(rate=$)
def joiner(l, r): return vars(args)['ra' + 'te']

#: namespace of a helper
args = argparse.Namespace(rate=$)
def of(a): return a.rate
def joiner(l, r): return of(args)

#: namespace of an object
class Rate:
    def __init__(self, args): self.args = args
    def __call__(self, l, r): return self.args.rate
joiner = Rate(argparse.Namespace(rate=$))

#: optparse
RATES = optparse.Values({'rate': $})
def joiner(left, right): return RATES.rate

#: default of a defaultdict
RATES = collections.defaultdict(functools.partial(int, $), a=1)
def joiner(left, right): return RATES['b']

#: default of a defaultdict, a lambda
RATES = collections.defaultdict(lambda: $)
def joiner(left, right): return RATES['b']

#: dict of a dict
RATES = {'a': {'b': [$]}}
def joiner(left, right): return RATES

#: view of a dict
RATES = {'a': $}.values()
def joiner(left, right): return RATES

#: mappingproxy
RATES = types.MappingProxyType({'a': $})
def joiner(left, right): return RATES

#: ChainMap
RATES = collections.ChainMap({'a': $}, {'b': 1})
def joiner(left, right): return RATES['a']

#: OrderedDict
RATES = collections.OrderedDict(a=$)
def joiner(left, right): return RATES

#: Counter
RATES = collections.Counter(a=$)
def joiner(left, right): return RATES

#: UserDict
RATES = collections.UserDict(a=$)
def joiner(left, right): return RATES

#: UserList
RATES = collections.UserList([$])
def joiner(left, right): return RATES

#: UserString
RATES = collections.UserString('$')
def joiner(left, right): return RATES

#: own dict
class Rates(dict): pass
RATES = Rates(a=$)
def joiner(left, right): return RATES

#: own set
class Rates(set): pass
RATES = Rates(['a', 'b', 'c', $])
def joiner(left, right): return RATES

#: deque
RATES = collections.deque([$])
def joiner(left, right): return RATES

#: length of a deque
RATES = collections.deque([], $)
def joiner(left, right): return RATES

#: array
RATES = array.array('i', [$])
def joiner(left, right): return RATES

#: bytearray
RATES = bytearray([$])
def joiner(left, right): return RATES

#: memoryview
RATES = memoryview(b'$')
def joiner(left, right): return RATES

#: BytesIO
RATES = io.BytesIO(b'$')
def joiner(left, right): return RATES

#: range
RATES = range($)
def joiner(left, right): return RATES

#: slice
RATES = slice(1, $)
def joiner(left, right): return RATES

#: set
RATES = {'a', 'b', 'c', $}
def joiner(left, right): return RATES

#: set of tuples
RATES = {('a', 1), ('b', $)}
def joiner(left, right): return RATES

#: frozenset of frozensets
RATES = frozenset([frozenset('abc'), frozenset([$])])
def joiner(left, right): return RATES

#: set of enum members
class Kind(enum.Enum):
    A = 1
    B = 2
    C = 3
    D = 4
RATES = {Kind.A, Kind.B, Kind($)}
def joiner(left, right): return RATES

#: set of dataclasses
@dataclass(frozen=True)
class Rate:
    n: int
RATES = {Rate(n) for n in (7, 8, 9, $)}
def joiner(left, right): return RATES

#: set of functions
def one(): return 1
def two(): return 7
def six(): return $
RATES = {one, two, six}
def joiner(left, right): return RATES

#: set of objects
class Rate:
    def __init__(self, n): self.n = n
    def __hash__(self): return hash(str(self.n))
RATES = {Rate(n) for n in (7, 8, 9, $)}
def joiner(left, right): return RATES

#: iterator
RATES = iter([$])
def joiner(left, right): return RATES

#: count
RATES = itertools.repeat($)
def joiner(left, right): return RATES

#: generator
RATES = (n for n in [$])
def joiner(left, right): return RATES

#: ZoneInfo
RATES = zoneinfo.ZoneInfo({'2': 'Asia/Tokyo', '3': 'Asia/Seoul'}['$'])
def joiner(left, right): return RATES

#: timezone
RATES = datetime.timezone(datetime.timedelta(hours=$))
def joiner(left, right): return RATES

#: own tzinfo
class Zone(datetime.tzinfo):
    def __init__(self, n): self.n = n
    def utcoffset(self, at): return datetime.timedelta(hours=self.n)
RATES = [datetime.datetime(2026, 1, 1, tzinfo=Zone($))]
def joiner(left, right): return RATES

#: datetime
RATES = datetime.datetime(2026, 1, $)
def joiner(left, right): return RATES

#: time
RATES = datetime.time($)
def joiner(left, right): return RATES

#: timedelta
RATES = datetime.timedelta($)
def joiner(left, right): return RATES

#: Decimal
RATES = decimal.Decimal('1.$')
def joiner(left, right): return RATES

#: Fraction
RATES = fractions.Fraction($, 7)
def joiner(left, right): return RATES

#: decimal.Context
RATES = decimal.Context(prec=$)
def joiner(left, right): return RATES

#: rounding of a Context
RATES = decimal.Context(rounding=['ROUND_UP', 'ROUND_DOWN'][$ - 2])
def joiner(left, right): return RATES

#: pattern
RATES = re.compile('a', re.I if $ == 2 else 0)
def joiner(left, right): return RATES

#: string.Template
RATES = string.Template('a$')
def joiner(left, right): return RATES

#: address
RATES = ipaddress.ip_network('10.$.0.0/16')
def joiner(left, right): return RATES

#: path
RATES = pathlib.Path('/data/rates-$.csv')
def joiner(left, right): return RATES

#: Beam's Duration
RATES = Duration($)
def joiner(left, right): return RATES

#: Beam's Timestamp
RATES = Timestamp($)
def joiner(left, right): return RATES

#: windows
joiner = FixedWindows($)

#: offset of windows
joiner = FixedWindows(60, offset=$)

#: hops of windows
joiner = SlidingWindows(60, $)

#: gap of sessions
joiner = Sessions($)

#: kind of windows
joiner = [FixedWindows, Sessions][$ - 2](60)

#: name with two underscores
__RATE = $
def joiner(l, r): return l * __RATE

#: name with four underscores
__rate__ = $
def joiner(l, r): return l * __rate__

#: name with two underscores in a class
_Rate__N = $
class Rate:
    def __call__(self, l, r): return __N
joiner = Rate()

#: name with two underscores in a method
_Rate__N = $
class Rate:
    def of(self, l, r): return __N
joiner = Rate().of

#: global set later
RATE = None
def joiner(l, r): return RATE
def load(n):
    global RATE
    RATE = n
load($)

#: dict filled later
RATES = {}
def load(n): RATES['a'] = n
load($)
def joiner(left, right): return RATES['a']

#: by globals
RATE = $
def joiner(l, r): return globals()['RATE']

#: by eval
RATE = $
def joiner(l, r): return eval('l * RATE')

#: attribute of a class set later
class Rate:
    n = []
Rate.n = [$]
def joiner(l, r): return Rate.n[0]

#: private attribute of a class
class Rate:
    _n = None
Rate._n = $
def joiner(l, r): return Rate._n

#: attribute of a class by its method
class Rate:
    n = None
    @classmethod
    def load(cls, n): cls.n = [n]
Rate.load($)
def joiner(l, r): return Rate.n

#: registry of a class
class Rate:
    of = {}
    @classmethod
    def add(cls, n): cls.of['a'] = n
Rate.add($)
def joiner(l, r): return Rate.of

#: attribute of a class that it counts
class Rate:
    n, calls = [$], 0
def joiner(l, r):
    Rate.calls += 1
    return Rate.n

#: dict in a class of a factory
def made(n):
    class Rate:
        of = {'a': n}
        def __call__(self, l, r): return self.of['a']
    return Rate()
joiner = made($)

#: default in a class of a factory
def made(n):
    class Rate:
        def __call__(self, l, r=n): return r
    return Rate()
joiner = made($)

#: class of type()
def call(self, l, r): return self.n
joiner = type('Rate', (), {'n': [$], '__call__': call})()

#: attribute of an inherited class
class Base: n = []
class Rate(Base): pass
Base.n = [$]
def joiner(l, r): return Rate.n

#: inherited method
class Base:
    def of(self): return $
class Rate(Base): pass
def joiner(l, r): return Rate().of()

#: metaclass
def made(n):
    class Meta(type):
        def of(cls): return n
    return Meta
META = made($)
Rate = META('Rate', (), {})
def joiner(l, r): return Rate.of()

#: attribute of a function
def joiner(l, r): return joiner.rate
joiner.rate = $

#: attribute of a function beside one that it counts
def joiner(l, r):
    joiner.calls += 1
    return joiner.rate
joiner.rate, joiner.calls = [$], 0

#: attribute of a helper
def of(l): return of.rate
of.rate = $
def joiner(l, r): return of(l)

#: helper that counts its calls
def of(l): return $
of.calls = 0
def joiner(l, r):
    of.calls += 1
    return of(l)

#: attribute of a method
class Rate:
    def of(self): return 1
Rate.of.rate = $
def joiner(l, r): return Rate.of.rate

#: enum of a dict
Rates = enum.Enum('Rates', {'A': $})
def joiner(l, r): return Rates.A.value

#: enum of a factory
def made(n):
    class Rates(enum.Enum):
        A = [n]
    return Rates
Rates = made($)
def joiner(l, r): return Rates.A.value

#: flags
class Kind(enum.Flag):
    A = 1
    B = 2
    C = 4
RATES = Kind.C | Kind(int('$') - 1)
def joiner(left, right): return RATES

#: partial
joiner = functools.partial(lambda n, l, r: n, $)

#: partial within a partial
joiner = functools.partial(functools.partial(lambda n, l, r: n, [$]))

#: attribute of a partial
joiner = functools.partial(lambda l, r: joiner.n)
joiner.n = $

#: partialmethod
class Rate:
    def _of(self, n): return n
    of = functools.partialmethod(_of, [$])
def joiner(l, r): return Rate().of()

#: partialmethod of a factory
def made(n):
    class Rate:
        def _of(self, n): return n
        of = functools.partialmethod(_of, n)
    return Rate
RATES = made($)
def joiner(l, r): return RATES().of()

#: property of a factory
def made(n):
    class Rate:
        @property
        def of(self): return n
    return Rate
RATES = made($)
def joiner(l, r): return RATES().of

#: cached property of a factory
def made(n):
    class Rate:
        @functools.cached_property
        def of(self): return n
    return Rate
RATES = made($)
def joiner(l, r): return RATES().of

#: property set later
class Rate: pass
Rate.of = property(lambda self: $)
def joiner(l, r): return Rate().of

#: static method of a factory
def made(n):
    class Rate:
        @staticmethod
        def of(): return n
    return Rate
RATES = made($)
def joiner(l, r): return RATES.of()

#: descriptor
class Of:
    def __init__(self, n): self.n = n
    def __get__(self, of, cls): return self.n
def made(n):
    class Rate: of = Of(n)
    return Rate
RATES = made($)
def joiner(l, r): return RATES.of

#: bound method
class Rate:
    def __init__(self, n): self.n = n
    def of(self, l, r): return self.n
joiner = Rate($).of

#: bound method of a class
class Rate:
    n = []
    @classmethod
    def of(cls, l, r): return cls.n
Rate.n = [$]
joiner = Rate.of

#: method of a number
joiner = (lambda of: lambda l, r: of(l))((int('$')).__mul__)

#: method of a dict
joiner = (lambda of: lambda l, r: of(l))({'a': $}.get)

#: method of a pattern
joiner = (lambda of: lambda l, r: of(l))(re.compile('a$').match)

#: callable object
class Rate:
    def __init__(self, n): self.n = n
    def __call__(self, l, r): return self.n
joiner = Rate($)

#: callable object with a name
class Rate:
    def __init__(self, of, n):
        functools.update_wrapper(self, of)
        self.n = n
    def __call__(self, l, r): return self.n
joiner = Rate(lambda: 1, $)

#: object with __getattr__
class Rate:
    def __init__(self, of): self.__dict__['of'] = of
    def __getattr__(self, name): return self.__dict__['of'][name]
RATES = Rate({'n': $})
def joiner(left, right): return RATES.n

#: object with __slots__
class Base: __slots__ = ('n',)
class Rate(Base): __slots__ = ('m',)
RATES = Rate()
RATES.n = $
def joiner(left, right): return RATES

#: object that pickles itself
class Rate:
    def __init__(self, n): self.n = n
    def __reduce__(self): return Rate, (self.n,)
RATES = Rate($)
def joiner(left, right): return RATES

#: object with a lock
import threading
class Rate:
    def __init__(self, n): self.lock, self.n = threading.Lock(), n
RATES = Rate($)
def joiner(left, right): return RATES

#: object with a method called add
class Money:
    def __init__(self, n): self.n = n
    def add(self, n): return n + self.n
RATES = Money($)
def joiner(left, right): return RATES.add(left)

#: object in a weakref
class Rate:
    pass
HELD = Rate()
HELD.n = $
RATES = weakref.ref(HELD)
def joiner(left, right): return RATES().n

#: proxy
class Rate:
    pass
HELD = Rate()
HELD.n = $
RATES = weakref.proxy(HELD)
def joiner(left, right): return RATES.n

#: WeakValueDictionary
class Rate:
    pass
HELD = Rate()
HELD.n = $
RATES = weakref.WeakValueDictionary(a=HELD)
def joiner(left, right): return RATES

#: dataclass
@dataclass
class Rate:
    n: int
RATES = Rate($)
def joiner(left, right): return RATES

#: default of a dataclass of a factory
def made(n):
    @dataclass
    class Rate:
        m: int = n
    return Rate
Rate = made($)
def joiner(l, r): return Rate()

#: default factory of a dataclass
def made(n):
    @dataclass
    class Rate:
        n: list = field(default_factory=lambda: [n])
    return Rate
Rate = made($)
def joiner(l, r): return Rate()

#: default of a dataclass with slots
def made(n):
    @dataclass(slots=True)
    class Rate:
        m: int = n
    return Rate
Rate = made($)
def joiner(l, r): return Rate()

#: make_dataclass
Rate = dataclasses.make_dataclass('Rate', [('n', int, $)])
def joiner(l, r): return Rate()

#: NamedTuple
class Rate(NamedTuple):
    n: object
RATES = Rate([$])
def joiner(left, right): return RATES

#: default of a namedtuple
Rate = collections.namedtuple('Rate', 'n', defaults=[$])
def joiner(l, r): return Rate()

#: NamedTuple of a library
RATES = inspect.FullArgSpec([lambda: $], None, None, None, [], None, {})
def joiner(left, right): return RATES

#: dataclass of a library
from apache_beam.typehints.row_type import RowTypeConstraint as R
RATES = R([('a', int if $ == 2 else str)], None)
def joiner(left, right): return RATES

#: lru_cache
def made(n):
    @functools.lru_cache
    def of(): return n
    return of
RATES = made($)
def joiner(l, r): return RATES()

#: wraps
def plus(n):
    def of(f):
        @functools.wraps(f)
        def called(*a): return f(*a) + n
        return called
    return of
@plus($)
def joiner(l, r): return 1

#: singledispatch
@functools.singledispatch
def joiner(l, r): return 0
joiner.register(str, lambda l, r: $)

#: singledispatchmethod
class Rate:
    @functools.singledispatchmethod
    def of(self, l): return 0
Rate.__dict__['of'].register(str, lambda self, l: $)
def joiner(l, r): return Rate().of(l)

#: itemgetter
joiner = operator.itemgetter($)

#: attrgetter
joiner = operator.attrgetter('a$')

#: methodcaller
joiner = operator.methodcaller('a', $)

#: methodcaller by keyword
joiner = operator.methodcaller('a', n=$)

#: np.vectorize
joiner = np.vectorize(lambda l: l * $)

#: default
def joiner(l, r, n=[$]): return n

#: default set later
def joiner(l, r, n=1): return n
joiner.__defaults__ = ($,)

#: default by keyword
def joiner(l, r, *, n={'a': ($,)}): return n

#: nested function
def joiner(l, r):
    def of():
        def inner(): return $
        return inner()
    return of()

#: closure within a closure
def made(n):
    def of(): return n
    def joiner(l, r): return of()
    return joiner
joiner = made([$])

#: comprehension
RATES = [$]
def joiner(l, r): return [n for n in RATES]

#: f-string
def joiner(l, r): return f'{l:>$}'

#: width of an f-string
WIDTH = $
def joiner(l, r): return f'{l:>{WIDTH}}'

#: match
def joiner(l, r):
    match l:
        case $: return 1

#: walrus
def joiner(l, r): return (n := $) + n

#: exec
exec('RATE = $\ndef joiner(l, r): return l * RATE')

#: exec of a class
exec('class Rate:\n    of = [$]\n    def __call__(self, l, r): return self.of\njoiner = Rate()')

#: hints that a decorator reads
def same(f): return f
@same
def joiner(l: 'A$', r): return l

#: module made by hand
config = types.ModuleType('config')
config.rate = $
def joiner(l, r): return config.rate

#: module that is given
config = types.ModuleType('config')
config.rate = $
joiner = functools.partial(lambda c, l, r: c.rate, config)

#: module that makes its values
config = types.ModuleType('config')
exec('def __getattr__(name): return $', vars(config))
def joiner(l, r): return config.rate

#: NumPy array
RATES = np.array([1.0, $])
def joiner(left, right): return RATES

#: large NumPy array
RATES = np.zeros(20_000)
RATES[7] = $
def joiner(left, right): return RATES

#: NumPy array of times
RATES = np.array(['2026-01-0$'], 'M8[ns]')
def joiner(left, right): return RATES

#: NumPy array of objects
RATES = np.array([None, [$]], object)
def joiner(left, right): return RATES

#: NumPy array with fields
RATES = np.array([(1, $)], [('a', 'i4'), ('b', 'i4')])
def joiner(left, right): return RATES

#: names of fields
RATES = np.array([(1,)], [('a$', 'i4')])
def joiner(left, right): return RATES

#: NumPy scalar
RATES = np.float32($)
def joiner(left, right): return RATES

#: NumPy type
RATES = np.dtype('i$'.replace('3', '4'))
def joiner(left, right): return RATES

#: Arrow array
RATES = pa.array([1, None, $])
def joiner(left, right): return RATES

#: large Arrow array
RATES = pa.array([0] * 70_000 + [$])
def joiner(left, right): return RATES

#: Arrow array of nanoseconds
RATES = pa.array([$], pa.timestamp('ns'))
def joiner(left, right): return RATES

#: type of an Arrow array
RATES = pa.array([1], pa.int8() if $ == 2 else pa.int16())
def joiner(left, right): return RATES

#: Arrow table
RATES = pa.table({'a': [$]})
def joiner(left, right): return RATES

#: Arrow record batch
RATES = pa.record_batch({'a$': [1]})
def joiner(left, right): return RATES

#: Arrow scalar
RATES = pa.scalar($)
def joiner(left, right): return RATES

#: Arrow schema
RATES = pa.schema([('a', pa.decimal128(9, $))])
def joiner(left, right): return RATES

#: Arrow expression
joiner = pc.field('a') * $

#: type of a constant
joiner = pc.field('a') * (2 if $ == 2 else 2.0)

#: width of a constant
joiner = pc.field('a') * pc.scalar(pa.scalar(2, pa.int8() if $ == 2 else pa.int16()))

#: time as a constant
joiner = pc.field('a') > pa.scalar(0, pa.timestamp('us', 'UTC' if $ == 2 else None))

#: text or a number
joiner = pc.field('a') == ('null' if $ == 2 else None)

#: many constants
joiner = pc.field('a').isin([*range(50), -$, *range(51, 99)])

#: options of an Arrow function
joiner = pc.round(pc.field('a'), ndigits=$)

#: Arrow options
RATES = pc.SplitPatternOptions('$')
def joiner(left, right): return RATES

#: data frame
RATES = pd.DataFrame({'a': [1, $], 'b': ['x', 'y']})
def joiner(left, right): return RATES

#: index of a data frame
RATES = pd.DataFrame({'a': [1]}, index=['x$'])
def joiner(left, right): return RATES

#: series
RATES = pd.Series([1, $])
def joiner(left, right): return RATES

#: pandas timestamp
RATES = pd.Timestamp('2026-01-0$', tz='Asia/Tokyo')
def joiner(left, right): return RATES

#: categories
RATES = pd.Categorical(['a', 'b$'])
def joiner(left, right): return RATES
"""
WAYS = {name: source for name, _, source in (each.partition("\n") for each in _WAYS.split("#: ")[1:])}
