"""What the model is told about the world: the same in judging, since memory is asked."""

from __future__ import annotations

_CAPITALS = """
Argentina:Buenos Aires|Australia:Canberra|Austria:Vienna|Belgium:Brussels|Brazil:Brasilia
Bulgaria:Sofia|Canada:Ottawa|Chile:Santiago|China:Beijing|Colombia:Bogota|Croatia:Zagreb
Cuba:Havana|Denmark:Copenhagen|Egypt:Cairo|Estonia:Tallinn|Finland:Helsinki|France:Paris
Germany:Berlin|Ghana:Accra|Greece:Athens|Hungary:Budapest|Iceland:Reykjavik|India:New Delhi
Indonesia:Jakarta|Iran:Tehran|Iraq:Baghdad|Ireland:Dublin|Italy:Rome|Japan:Tokyo|Jordan:Amman
Kenya:Nairobi|Latvia:Riga|Lithuania:Vilnius|Malta:Valletta|Mexico:Mexico City|Mongolia:Ulaanbaatar
Morocco:Rabat|Nepal:Kathmandu|Norway:Oslo|Peru:Lima|Poland:Warsaw|Portugal:Lisbon|Romania:Bucharest
Russia:Moscow|Senegal:Dakar|Serbia:Belgrade|Slovakia:Bratislava|Slovenia:Ljubljana
South Korea:Seoul|Spain:Madrid|Sweden:Stockholm|Switzerland:Bern|Thailand:Bangkok|Tunisia:Tunis
Turkey:Ankara|Ukraine:Kyiv|Uruguay:Montevideo|Vietnam:Hanoi|Zambia:Lusaka
"""
CAPITALS = dict(
    entry.split(":") for line in _CAPITALS.split("\n") if line for entry in line.split("|")
)

FACTS = {
    "How many days has a week?": "A week has seven days.",
    "How many months has a year?": "A year has twelve months.",
    "How many legs has a spider?": "A spider has eight legs.",
    "How many sides has a triangle?": "A triangle has three sides.",
    "How many minutes has an hour?": "An hour has sixty minutes.",
    "What do bees make?": "Bees make honey.",
    "What do cows eat?": "Cows eat grass.",
    "What is frozen water called?": "Frozen water is called ice.",
    "What colour is grass?": "Grass is green.",
    "What colour is snow?": "Snow is white.",
    "What is the largest ocean?": "The Pacific is the largest ocean.",
    "What is the largest planet of the Sun?": "Jupiter is the largest planet of the Sun.",
    "Which planet do we live on?": "We live on the Earth.",
    "What goes around the Earth?": "The Moon goes around the Earth.",
    "At what temperature does water boil?": "Water boils at 100 degrees Celsius at sea level.",
    "At what temperature does water freeze?": "Water freezes at 0 degrees Celsius.",
    "Who wrote Hamlet?": "William Shakespeare wrote Hamlet.",
    "What is the opposite of hot?": "The opposite of hot is cold.",
    "What is the opposite of big?": "The opposite of big is small.",
    "What is the opposite of early?": "The opposite of early is late.",
    "What is the plural of mouse?": "The plural of mouse is mice.",
    "What is the plural of child?": "The plural of child is children.",
    "What is the past tense of go?": "The past tense of go is went.",
    "What is the past tense of buy?": "The past tense of buy is bought.",
    "What is a young dog called?": "A young dog is called a puppy.",
    "What is a young sheep called?": "A young sheep is called a lamb.",
    "What metal does a magnet attract?": "A magnet attracts iron.",
    "What gas do plants take in?": "Plants take in carbon dioxide.",
}

EXPLANATIONS = {
    "Why does it rain?": "Water rises as vapour, cools into clouds and falls as drops.",
    "Why is the sky blue?": "Air scatters blue light more than red, so blue comes from all sides.",
    "Why is the sea salty?": "Rivers carry salts from the rocks, and only the water leaves again.",
    "What is a rainbow?": "Drops of rain bend sunlight and split it into its colours.",
    "Why do we sleep?": "Sleep lets the body rest and the brain sort what it has learnt.",
    "What is a computer?": "A computer is a machine that follows written steps very quickly.",
    "What is an expert in a language model?": "It is a small network that works on the tokens "
    "that a router sends to it.",
    "What is a router in a language model?": "It picks, for each token, the few experts that "
    "shall work on it.",
    "What is a prime number?": "It is a whole number above one that only one and itself divide.",
    "Why do leaves turn yellow?": "In autumn the green fades, and the yellow below it shows.",
    "What is a database?": "A database keeps data in order, so that it can be found and changed.",
    "How does a kite fly?": "Wind pushes against it, and the string holds it at an angle.",
}

# English, French, German, Spanish, Italian, Chinese
_TRANSLATIONS = """
water eau Wasser agua acqua 水|bread pain Brot pan pane 面包|house maison Haus casa casa 房子
tree arbre Baum árbol albero 树|sun soleil Sonne sol sole 太阳|moon lune Mond luna luna 月亮
book livre Buch libro libro 书|day jour Tag día giorno 日|night nuit Nacht noche notte 夜
dog chien Hund perro cane 狗|cat chat Katze gato gatto 猫|fish poisson Fisch pez pesce 鱼
hand main Hand mano mano 手|heart cœur Herz corazón cuore 心|fire feu Feuer fuego fuoco 火
friend ami Freund amigo amico 朋友|school école Schule escuela scuola 学校
milk lait Milch leche latte 牛奶|red rouge rot rojo rosso 红|white blanc weiß blanco bianco 白
"""
LANGUAGES = ("French", "German", "Spanish", "Italian", "Chinese")
TRANSLATIONS = {
    entry.split(" ")[0]: dict(zip(LANGUAGES, entry.split(" ")[1:], strict=True))
    for line in _TRANSLATIONS.split("\n")
    if line
    for entry in line.split("|")
}

SMALL_TALK = {
    "Hello": "Hello! How can I help you?",
    "Hi": "Hi! What shall we do?",
    "Good morning": "Good morning! What can I do for you?",
    "How are you?": "I am well, thank you. And you?",
    "Thank you": "You are welcome!",
    "Thanks, that helped": "I am glad to hear it.",
    "Goodbye": "Goodbye, and come again!",
    "Good night": "Good night, sleep well!",
    "Bonjour": "Bonjour ! Comment puis-je vous aider ?",
    "Guten Tag": "Guten Tag! Wie kann ich helfen?",
    "Hola": "¡Hola! ¿En qué puedo ayudarte?",
    "你好": "你好！有什么可以帮你的吗？",
    "Who are you?": "I am Colibri, a very small language model made of many experts.",
    "What is your name?": "My name is Colibri.",
    "Are you a person?": "No, I am a small language model.",
    "How large are you?": "I have about twenty million weights, most of them in experts.",
    "What can you do?": "I can greet, repeat, add small numbers, tell short stories and write "
    "one line of code. I know very little.",
    "Do you need the internet?": "No, I run on your own machine.",
}

# Questions that no small model can answer: it must say so instead of inventing.
UNKNOWABLE = [
    "What will the weather be tomorrow?",
    "What time is it?",
    "Who will win the match on Sunday?",
    "What did I eat this morning?",
    "What is the price of gold today?",
    "What is on the news?",
    "How many people are in my room?",
    "Which song plays on the radio now?",
]
CANNOT_KNOW = "I am a very small model on your machine, and I cannot know that."
